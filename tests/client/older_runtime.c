/* A libstdc++.so.6 as an old program may have one: nothing that is newer than itself is in it. */
int older_runtime_marker;
