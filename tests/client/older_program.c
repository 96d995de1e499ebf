/* A program compiled with a header whose tessera_job_stats ends after `misses`. */
#include <stdio.h>
#include <string.h>
#include <tessera/tessera.h>

struct older_stats {
  size_t struct_size;
  int devices;
  double seconds;
  double flops;
  int64_t tile_m, tile_n, tile_k;
  int64_t l1_hits, l2_hits, misses;
};

int main(void) {
  enum { n = 64 };
  static double A[n * n], B[n * n], C[n * n];
  struct {
    struct older_stats stats;
    char guard[64];
  } room;
  tessera_context context = NULL;
  size_t i;
  memset(&room, 0x5a, sizeof room);
  room.stats.struct_size = sizeof room.stats;
  if (tessera_create_with(&context, "TESSERA_DEVICES=host:2 TESSERA_OFFLOAD=always TESSERA_TILE=16") !=
          TESSERA_SUCCESS ||
      tessera_dgemm(context, TESSERA_COL_MAJOR, TESSERA_NO_TRANS, TESSERA_NO_TRANS, n, n, n, 1, A, n, B, n, 0, C, n) !=
          TESSERA_SUCCESS ||
      tessera_last_job_stats(context, (tessera_job_stats*)(void*)&room.stats) != TESSERA_SUCCESS) {
    fprintf(stderr, "%s\n", tessera_last_error());
    return 1;
  }
  tessera_destroy(context);
  for (i = 0; i < sizeof room.guard; ++i) {
    if (room.guard[i] != 0x5a) return fprintf(stderr, "byte %d behind the structure was written\n", (int)i), 1;
  }
  if (room.stats.struct_size != sizeof room.stats || room.stats.devices != 2 || room.stats.tile_m != 16 ||
      room.stats.misses <= 0) {
    fprintf(stderr, "size %d, devices %d, tile %d, misses %d\n", (int)room.stats.struct_size, room.stats.devices,
            (int)room.stats.tile_m, (int)room.stats.misses);
    return 1;
  }
  return 0;
}
