/* A libstdc++.so.6 as an old program may have: it lacks all newer symbols. */
int older_runtime_marker;
