/* SPDX-License-Identifier: MIT */
#include "service/check/stage.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define STRESS_FACTOR 10 /* by which the limits are larger under --gc-stress */
#define TICK_MSEC 200
#define MAX_LINE (64 * 1024)

static volatile sig_atomic_t interrupted = 0;

static void on_signal(int signo) {
        (void) signo;
        interrupted = 1;
}

static const int caught_signals[] = { SIGINT, SIGTERM, SIGHUP };

void check_catch_signals(void) {
        struct sigaction action = { .sa_handler = on_signal };

        for (size_t i = 0; i < ELEMENTSOF(caught_signals); i++)
                (void) sigaction(caught_signals[i], &action, NULL);
        (void) signal(SIGPIPE, SIG_IGN);
}

bool check_is_interrupted(void) {
        return interrupted;
}

/* What the child's Ruby finds. */
static void release_signals(void) {
        for (size_t i = 0; i < ELEMENTSOF(caught_signals); i++)
                (void) signal(caught_signals[i], SIG_DFL);
        (void) signal(SIGPIPE, SIG_DFL);
}

typedef struct Parent {
        const CheckStage *stage;
        const CheckRun *run;
        CheckSink sink;
        void *userdata;
        pid_t pid;
} Parent;

/* The child ended, or was ended, in the middle of something. */
static void report_end(const Parent *p, const char *id, const char *how) {
        const CheckShared *s = p->run->shared;
        _cleanup_free_ char *what = NULL;
        const char *op = operation_to_string(s->op);
        json_t *line;

        if (s->since_usec == 0)
                (void) xstrdup("between two requests", &what);
        else if (s->loading)
                (void) xstrdup("while the script was loaded and its target built", &what);
        else if (s->op == OPERATION_FLUSH)
                (void) xstrdup("in a batch that starts with flush", &what);
        else
                (void) xasprintf(&what, "in a batch that starts with %s of %" PRIu64 " bytes at %" PRIu64, op ? op :
                                 "a request", s->length,
                                 s->offset);
        line = json_pack("{s:s, s:s, s:s, s:o}", "check", s->check[0] ? s->check : "load", "result", "fault", "id",
                         id, "message",
                         json_sprintf("%s %s", how, what ? what : ""));
        p->sink(p->userdata, line);
        json_decref(line);
}

static void take_lines(const Parent *p, char **buffer, size_t *size) {
        char *start = *buffer, *end;

        while ((end = memchr(start, '\n', *size - (size_t) (start - *buffer)))) {
                json_t *line = json_loadb(start, (size_t) (end - start), 0, NULL);

                if (line)
                        p->sink(p->userdata, line);
                json_decref(line);
                start = end + 1;
        }
        *size -= (size_t) (start - *buffer);
        memmove(*buffer, start, *size);
}

static bool is_stuck(const Parent *p) {
        uint64_t since = __atomic_load_n(&p->run->shared->since_usec, __ATOMIC_RELAXED);
        uint64_t limit = p->run->options->hook_timeout_usec * (p->run->options->gc_stress ? STRESS_FACTOR : 1);

        return since > 0 && now_usec() > since + limit;
}

static bool has_ended(const Parent *p) {
        siginfo_t info = { 0 };

        return waitid(P_PID, (id_t) p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* 0 at the end of what the child writes; -EINTR; -ETIME. */
static int read_lines(const Parent *p, int fd) {
        _cleanup_free_ char *buffer = malloc(MAX_LINE);
        bool ended = false; /* all that it wrote is in the pipe by then, but that may be more than was there at the last look */
        size_t size = 0;

        if (!buffer)
                return -ENOMEM;
        for (;;) {
                struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
                ssize_t n;
                int r;

                if (interrupted)
                        return -EINTR;
                r = poll(&poll_fd, 1, ended ? 0 : TICK_MSEC);
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0) {
                        if (ended)
                                return 0; /* but a child of its own has the pipe */
                        if (is_stuck(p))
                                return -ETIME;
                        ended = has_ended(p);
                        continue;
                }
                n = read(fd, buffer + size, MAX_LINE - size);
                if (n <= 0)
                        return 0;
                size += (size_t) n;
                take_lines(p, &buffer, &size);
                if (size == MAX_LINE)
                        size = 0; /* no line of ours */
        }
}

static CheckEnd judge_end(const Parent *p, int status) {
        char how[64];

        if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && p->run->shared->since_usec == 0)
                return CHECK_ENDED;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && p->stage->may_be_killed)
                return CHECK_ENDED_KILLED;
        if (WIFSIGNALED(status))
                snprintf(how, sizeof(how), "the process was ended by signal %d (%s)", WTERMSIG(status),
                         strsignal(WTERMSIG(status)));
        else
                snprintf(how, sizeof(how), "the process ended with status %d", WEXITSTATUS(status));
        report_end(p, "process-ended", how);
        return CHECK_ENDED_BADLY;
}

/* The child's whole group: a hook may have children of its own. */
static int end_child(pid_t pid, bool by_force) {
        int status = 0;

        if (by_force)
                (void) kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        (void) kill(-pid, SIGKILL);
        return status;
}

/* A child that has said all it has to say gets some seconds for its at_exit blocks (hook_run limits them). */
static CheckEnd watch(const Parent *p, int fd) {
        int r, status;

        r = read_lines(p, fd);
        status = end_child(p->pid, /* by_force= */ r < 0);
        if (r == -EINTR)
                return CHECK_ENDED_INTERRUPTED;
        if (r == -ETIME) {
                char how[64];

                (void) snprintf(how, sizeof(how), "no answer came within %.1f s",
                                (double) p->run->options->hook_timeout_usec / USEC_PER_SEC);
                report_end(p, "stuck", how);
                return CHECK_ENDED_BADLY;
        }
        return judge_end(p, status);
}

static _Noreturn void run_child(const CheckStage *stage, const CheckRun *run, int fd) {
        (void) setpgid(0, 0);
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        release_signals();
        (void) dup2(STDERR_FILENO, STDOUT_FILENO); /* what the hook prints is no part of the report */
        _exit(check_stage_serve(stage, run, fd) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

CheckEnd check_stage_run(const CheckStage *stage, const CheckRun *run, CheckSink sink, void *userdata) {
        Parent p = { .stage = stage, .run = run, .sink = sink, .userdata = userdata };
        int pair[2];
        CheckEnd end;

        if (interrupted)
                return CHECK_ENDED_INTERRUPTED;
        run->shared->check[0] = '\0';
        run->shared->since_usec = 0;
        run->shared->loading = false;
        (void) fflush(NULL);
        if (pipe2(pair, O_CLOEXEC) < 0)
                return CHECK_ENDED_BADLY;
        p.pid = fork();
        if (p.pid == 0) {
                safe_close(pair[0]);
                run_child(stage, run, pair[1]);
        }
        safe_close(pair[1]);
        if (p.pid < 0) {
                safe_close(pair[0]);
                return CHECK_ENDED_BADLY;
        }
        (void) setpgid(p.pid, p.pid);
        end = watch(&p, pair[0]);
        safe_close(pair[0]);
        return end;
}
