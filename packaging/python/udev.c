/* The functions of libudev that libhwloc calls, on a machine that libudev knows nothing of. libhwloc then reads the
   kernel's files alone. Without this file the wheel would need a libudev, or hold one, whose licence is the LGPL. */
#include <stddef.h>

void* udev_new(void) { return NULL; }
void* udev_unref(void* udev) {
  (void)udev;
  return NULL;
}
void* udev_device_new_from_subsystem_sysname(void* udev, const char* subsystem, const char* name) {
  (void)udev;
  (void)subsystem;
  (void)name;
  return NULL;
}
void* udev_device_unref(void* device) {
  (void)device;
  return NULL;
}
const char* udev_device_get_property_value(void* device, const char* key) {
  (void)device;
  (void)key;
  return NULL;
}
