// The same piece of work for each of several devices, side by side: opening them, reserving their memory.
//
// The calling thread takes part, and one more thread for each further piece is started. Opening a device loads
// libraries. The caller may hold the loader's lock, since a library may multiply matrices while it is loaded. It cannot
// release the lock while it waits. So a thread first passes through the loader, and only then takes a piece. The caller
// takes pieces as long as there are any, and waits only for threads that have taken one. If it holds the lock, it
// therefore does all pieces by itself.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

/// Calls `work(i)` once for each i < count, and returns when all of these calls have. A single piece needs no thread.
/// After a piece has failed, pieces that no thread has begun are left out. A thread that cannot be started is no
/// failure: the others do the work.
/// @throws the exception of the failed piece with the lowest number
void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);

/// Calls `work(i)` for each i < count, each by a thread of its own, and returns when all calls that have begun have
/// ended. The caller takes no part. Threads that cannot be started are left out, and so are those that have not passed
/// through the loader by the end. If none has passed after half a second, the caller holds the loader's lock: then
/// nothing is done.
/// @pre `work` does not throw @throws std::bad_alloc before any thread has begun
void on_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// Returns when no other thread holds the loader's lock.
void pass_loader();

}  // namespace tessera
