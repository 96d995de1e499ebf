// A shared library that is no plugin: it lacks the entry.
extern "C" __attribute__((visibility("default"))) int tessera_test_plugin_without_entry() { return 0; }
