/* stranger.c - a library that is no CUDA driver and defines one's functions; as STRANGER_PROGRAM, who uses
 * it. */
int cuInit(unsigned flags);
int cuMemFree_v2(unsigned long long p);

#ifdef STRANGER_PROGRAM
static int (*volatile in_data)(unsigned long long) = cuMemFree_v2;

int main(void)
{
    return !(cuInit(0) == 4711 && in_data(0) == 4712);
}
#else
int cuInit(unsigned flags)
{
    return 4711;
}
int cuMemFree_v2(unsigned long long p)
{
    return 4712;
}
#endif
