/* Hides vector instructions from a process and its children, so that a machine with AVX-512 measures what one without it
 * would choose: cargo xtask bench --cpu LEVEL preloads this library into every program that it measures.
 *
 * CPUID is made to fault (arch_prctl ARCH_SET_CPUID, https://man7.org/linux/man-pages/man2/arch_prctl.2.html); the handler
 * executes it, clears the bits of the instructions that are hidden, and continues behind it. TENON_HIDE_FROM is "baseline"
 * (AVX and all later ones) or "avx2" (AVX-512, AVX-VNNI and AMX). */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static int without_avx;

/* EAX, EBX, ECX, EDX. */
typedef unsigned registers[4];

static void clear(unsigned *value, unsigned bits) { *value &= ~bits; }

#define BIT(n) (1u << (n))

/* The positions of the bits: Intel's manual, volume 2A, "CPUID". */
static void hide(unsigned leaf, unsigned subleaf, registers r) {
    if (leaf == 1 && without_avx) /* FMA, AVX, F16C */
        clear(&r[2], BIT(12) | BIT(28) | BIT(29));
    if (leaf == 7 && subleaf == 0) {
        /* AVX-512: F, DQ, IFMA, PF, ER, CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; 4VNNIW, 4FMAPS, VP2INTERSECT,
         * FP16; then AMX: BF16, TILE, INT8. */
        clear(&r[1], BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));
        clear(&r[2], BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));
        clear(&r[3], BIT(2) | BIT(3) | BIT(8) | BIT(23) | BIT(22) | BIT(24) | BIT(25));
        if (without_avx) { /* AVX2; VAES, VPCLMULQDQ */
            clear(&r[1], BIT(5));
            clear(&r[2], BIT(9) | BIT(10));
        }
    }
    if (leaf == 7 && subleaf == 1) {
        /* AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA; AVX-VNNI-INT8, AVX-NE-CONVERT, AVX-VNNI-INT16, AVX10. */
        clear(&r[0], BIT(4) | BIT(5) | BIT(21) | BIT(23));
        clear(&r[3], BIT(4) | BIT(5) | BIT(10) | BIT(19));
    }
    if (leaf == 0xd && subleaf == 0) /* The state of AVX-512 and AMX, and of AVX. */
        clear(&r[0], BIT(5) | BIT(6) | BIT(7) | BIT(17) | BIT(18) | (without_avx ? BIT(2) : 0));
}

static int set_faults(int on) { return (int)syscall(SYS_arch_prctl, ARCH_SET_CPUID, on ? 0 : 1); }

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    greg_t *saved = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)saved[REG_RIP];
    /* CPUID faults with a general protection fault, which has no address. */
    if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {
        signal(signal_number, SIG_DFL);
        return;
    }
    registers r;
    unsigned leaf = (unsigned)saved[REG_RAX], subleaf = (unsigned)saved[REG_RCX];
    set_faults(0);
    __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
    set_faults(1);
    hide(leaf, subleaf, r);
    saved[REG_RAX] = r[0];
    saved[REG_RBX] = r[1];
    saved[REG_RCX] = r[2];
    saved[REG_RDX] = r[3];
    saved[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
    const char *level = getenv("TENON_HIDE_FROM");
    if (level == NULL)
        return;
    without_avx = strcmp(level, "baseline") == 0;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
    sigaction(SIGSEGV, &action, NULL);
    set_faults(1);
}
