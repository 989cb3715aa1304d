/*
 * weak.c - a program not linked with the driver that names it weakly: exits 0 where every reference is NULL,
 * 1 where one is not.  With EXPECT_DRIVER (linked with it) the other way round.
 */
int check(void);

#ifndef WEAK_MAIN /* which asks the library */
typedef int driver_function(void);
extern driver_function cuInit __attribute__((weak));
extern driver_function cuMemAlloc_v2 __attribute__((weak));
extern driver_function cuMemFree_v2 __attribute__((weak));
extern driver_function cuMemFree __attribute__((weak)); /* hooked, but the tests' driver lacks it */

static driver_function *volatile in_data = cuMemAlloc_v2;
static driver_function *const volatile in_relro = cuMemFree_v2;
static driver_function *volatile lacking = cuMemFree;

int check(void)
{
    int calls = cuInit != 0 ? (cuInit(), 1) : 0; /* a PLT slot too */
#ifdef EXPECT_DRIVER
    return !(calls && in_data != 0 && in_relro != 0 && lacking == 0 && cuMemFree == 0);
#else
    return calls || in_data != 0 || in_relro != 0 || lacking != 0 || cuMemFree != 0;
#endif
}
#endif

#ifndef WEAK_LIBRARY
int main(void)
{
    return check();
}
#endif
