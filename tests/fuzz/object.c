/* object.c - a small shared object for fuzz_elf: a few functions, of which one is static. */
int fuzz_object_first(int a);
int fuzz_object_second(int a);

static __attribute__((noinline)) int inner(int a)
{
    return a * 3;
}

int fuzz_object_first(int a)
{
    return inner(a) + 1;
}

int fuzz_object_second(int a)
{
    return fuzz_object_first(a) ^ inner(a + 1);
}
