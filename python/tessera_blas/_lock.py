"""The lock of all that this package changes in the process. A fork waits for it, so that no child finds it taken."""

import os
import threading

lock = threading.RLock()

os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
