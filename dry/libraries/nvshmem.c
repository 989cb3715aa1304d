/*
 * nvshmem.c - the names of libnvshmem_host that PyTorch needs to load; a heap shared by GPUs is not
 * simulated.
 */
#include "names.h"

STANDS_IN void get_version(int *major, int *minor)
{
    *major = VERSION / 1000;
    *minor = VERSION / 100 % 10;
}

NAME(nvshmem_info_get_version, get_version)
#define HEAP(name)      MISSING(nvshmem_##name)
#define EXTENSION(name) MISSING(nvshmemx_##name)
HEAP(init)
HEAP(malloc)
HEAP(free)
HEAP(ptr)
HEAP(barrier_all)
HEAP(my_pe)
HEAP(n_pes)
HEAP(team_my_pe)
HEAP(team_n_pes)
HEAP(team_split_strided)
HEAP(selected_device_transport)
EXTENSION(alltoallmem_on_stream)
EXTENSION(broadcastmem_on_stream)
EXTENSION(getmem_on_stream)
EXTENSION(putmem_on_stream)
EXTENSION(putmem_signal_on_stream)
EXTENSION(signal_wait_until_on_stream)
EXTENSION(cumodule_init)
EXTENSION(get_uniqueid)
EXTENSION(set_attr_uniqueid_args)
EXTENSION(mc_ptr)
MISSING(nvshmemid_hostlib_init_attr)
MISSING(nvshmemid_hostlib_finalize)
MISSING(nvshmemid_init_status)
