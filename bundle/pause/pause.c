/*
 * pause is the program of a pod's sandbox. It holds the namespaces that the
 * pod's containers share, and does nothing else.
 *
 * Where the containers share a process namespace it is their PID 1, so orphans
 * end up as its children. It ignores SIGCHLD, which makes the kernel reap them
 * without waking anybody: an idle pod costs no CPU at all.
 *
 * SIGTERM and SIGINT end it at once. There is no libc in here, only the four
 * system calls that it takes, so the static file is under five kilobytes.
 */

#if defined(__x86_64__)

enum { SYS_RT_SIGACTION = 13, SYS_RT_SIGPROCMASK = 14, SYS_RT_SIGTIMEDWAIT = 128, SYS_EXIT_GROUP = 231 };

static long syscall4(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

__asm__(".globl _start\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	call sandbox\n");

#elif defined(__aarch64__)

enum { SYS_RT_SIGACTION = 134, SYS_RT_SIGPROCMASK = 135, SYS_RT_SIGTIMEDWAIT = 137, SYS_EXIT_GROUP = 94 };

static long syscall4(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory");
	return x0;
}

__asm__(".globl _start\n"
	"_start:\n"
	"	mov x29, xzr\n"
	"	bl sandbox\n");

#else
#error "pause knows amd64 and arm64 only"
#endif

enum { SIGINT = 2, SIGTERM = 15, SIGCHLD = 17, SIG_BLOCK = 0 };

/* The kernel's signal set: bit n-1 stands for signal n. */
typedef unsigned long sigset;
#define SIGNAL(n) (1UL << ((n) - 1))

/* What rt_sigaction takes. The handler 1 means: ignore. */
struct action {
	unsigned long handler;
	unsigned long flags;
	unsigned long restorer;
	sigset mask;
};

__attribute__((noreturn, used)) void sandbox(void)
{
	const struct action ignore = { .handler = 1 };
	const sigset stop = SIGNAL(SIGTERM) | SIGNAL(SIGINT);
	long signal;

	syscall4(SYS_RT_SIGACTION, SIGCHLD, (long)&ignore, 0, sizeof(sigset));

	/* A PID 1 never gets a signal that it neither handles nor blocks. */
	syscall4(SYS_RT_SIGPROCMASK, SIG_BLOCK, (long)&stop, 0, sizeof(sigset));

	/* Waiting is also cut short when a stopped process is continued. */
	do
		signal = syscall4(SYS_RT_SIGTIMEDWAIT, (long)&stop, 0, 0, sizeof(sigset));
	while (signal < 0);

	for (;;)
		syscall4(SYS_EXIT_GROUP, 0, 0, 0, 0);
}
