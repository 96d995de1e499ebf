// The same piece of work for each of several devices, side by side: opening them, reserving their memory.
//
// The calling thread takes part, and one more thread for each further piece is started. Opening a device loads
// libraries, and the caller may hold the loader's lock (a library may multiply matrices while it is loaded), which it
// cannot give up while it waits. So a thread first passes through the loader, and only then takes a piece. The caller
// takes pieces as long as there are any, and waits only for threads that have taken one. Where it holds the lock, it
// therefore does everything by itself.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

/// Calls `work(i)` once for each i < count, and returns when all of these calls have. Piece 0 alone needs no thread.
/// After a piece has failed, those that nobody has begun are left out. Threads that are short are no failure: the
/// others do the work.
/// @throws what the failed piece of the lowest number has thrown
void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);

/// Returns when no other thread holds the loader's lock.
void pass_loader();

}  // namespace tessera
