// Annotations of what each lock guards. clang checks them (-Wthread-safety, by `./dev lint`). Empty for other
// compilers. Source: Hutchins, Ballman and Sutherland, C/C++ Thread Safety Analysis, SCAM 2014.
#pragma once

#if defined(__clang__)
#define TESSERA_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define TESSERA_THREAD_SAFETY(attribute)
#endif

/// Of a class that is a lock.
#define TESSERA_CAPABILITY(name) TESSERA_THREAD_SAFETY(capability(name))
/// Of a class that holds a lock as long as it lives.
#define TESSERA_SCOPED_CAPABILITY TESSERA_THREAD_SAFETY(scoped_lockable)
/// Of a member that is read and written only under the lock.
#define TESSERA_GUARDED_BY(mutex) TESSERA_THREAD_SAFETY(guarded_by(mutex))
/// Of a function that is called under the lock.
#define TESSERA_REQUIRES(...) TESSERA_THREAD_SAFETY(requires_capability(__VA_ARGS__))
/// Of a function that takes the lock itself: its caller must not hold it.
#define TESSERA_EXCLUDES(...) TESSERA_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define TESSERA_ACQUIRE(...) TESSERA_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define TESSERA_RELEASE(...) TESSERA_THREAD_SAFETY(release_capability(__VA_ARGS__))
/// Of a function whose body the check does not understand: one that lets go of a lock that its caller holds.
#define TESSERA_UNCHECKED TESSERA_THREAD_SAFETY(no_thread_safety_analysis)
