/*
 * workspace_library.c - a library that asks the driver for memory itself, as cuBLAS and NCCL do: built under
 * their names.
 */
int cuMemAlloc_v2(unsigned long long *p, unsigned long size);
unsigned long long library_memory(unsigned long size);

unsigned long long library_memory(unsigned long size)
{
    unsigned long long p = 0;
    return cuMemAlloc_v2(&p, size) ? 0 : p;
}
