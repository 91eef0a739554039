/* Prints this processor's time-stamp rate in kHz. An emulated guest reads the
 * real counter but calibrates it by emulated timers, which is wrong by up to a
 * factor of two on a busy machine; the harness hands it the number instead. */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(void)
{
	double from = seconds(), till = from;
	unsigned long long ticks = __rdtsc();

	while (till - from < 0.05)
		till = seconds();
	ticks = __rdtsc() - ticks;
	printf("%.0f\n", ticks / (till - from) / 1000);
	return 0;
}
