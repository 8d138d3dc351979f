/* SPDX-License-Identifier: MIT */
#include "service/activation.h"
#include "service/control-arguments.h"
#include "service/worker-link.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static int parse(ControlArguments *a, const char *line) {
        _cleanup_free_ char *message = NULL;
        char **words = g_strsplit(line, " ", 0);
        int r;

        r = control_arguments_parse(*line ? (int) g_strv_length(words) : 0, words, a, &message);
        g_assert_true((r < 0) == (message != NULL));
        g_strfreev(words);
        return r;
}

static void test_arguments(void) {
        ControlArguments a;

        g_assert_cmpint(parse(&a, "probe"), ==, 0);
        g_assert_cmpint(a.verb, ==, CONTROL_PROBE);
        g_assert_false(a.json || a.instance);
        g_assert_cmpint(parse(&a, "probe --json"), ==, 0);
        g_assert_true(a.json);
        g_assert_cmpint(parse(&a, "activate 7 1234"), ==, 0);
        g_assert_cmpint(a.verb, ==, CONTROL_ACTIVATE);
        g_assert_cmpuint(a.id, ==, 7);
        g_assert_cmpuint(a.pid, ==, 1234);
        g_assert_cmpint(parse(&a, "release 1048575"), ==, 0);
        g_assert_cmpint(parse(&a, "--help"), ==, 0);
        g_assert_true(a.help);
        g_assert_cmpint(parse(&a, "--version"), ==, 0);
        g_assert_true(a.version);
}

static void test_bad_arguments(void) {
        const char *bad[] = {
                "", "frob", "probe 1", "list x", "activate", "activate 1", "activate 1 0", "activate 1 -3", "activate 1 2 3",
                "activate 1 2 3 4", "activate 1 99999999999", "stop", "stop 1 2", "stop -1", "stop +1", "stop 0x1", "stop 1048576",
                "remove disk0", "remove", "remove 1 2", "remove 1 state keep", "remove 1 all", "stop --json 1", "--frob", "probe --frob", "PROBE", "holders ../1",
        };
        ControlArguments a;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                g_assert_cmpint(parse(&a, bad[i]), ==, -EINVAL);
}

static void test_instances(void) {
        const char *bad[] = {
                "--instance", "--instance holders", "--instance holders-", "--instance holders-1-2", "--instance activate-1-2",
                "--instance stop-1", "--instance holders-1-2-3-4", "--instance holders 1", "--instance -1", "--instance frob-1",
                "--instance remove-1-", "--instance remove-1-state-keep", "--instance remove-state",
                "--instance holders-1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        };
        ControlArguments a;

        g_assert_cmpint(parse(&a, "--instance probe"), ==, 0);
        g_assert_true(a.instance);
        g_assert_cmpint(parse(&a, "--instance remove-42"), ==, 0);
        g_assert_cmpint(a.verb, ==, CONTROL_REMOVE);
        g_assert_cmpuint(a.id, ==, 42);
        g_assert_cmpint(a.state, ==, REMOVE_LEAVES_STATE);
        g_assert_cmpint(parse(&a, "--instance remove-42-state"), ==, 0);
        g_assert_cmpint(a.state, ==, REMOVE_STATE);
        g_assert_cmpint(parse(&a, "remove 42 keep"), ==, 0);
        g_assert_cmpint(a.state, ==, REMOVE_KEEPS_STATE);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                g_assert_cmpint(parse(&a, bad[i]), ==, -EINVAL);
}

static void test_instance_ids(void) {
        static const struct { const char *instance; int r; uint32_t id; } cases[] = {
                { "holders-3", 0, 3 }, { "remove-7", 0, 7 }, { "remove-7-state", 0, 7 }, { "remove-7-keep", 0, 7 }, { "resize-7", 0, 7 },
                { "resize-7-1073741824", 0, 7 }, { "sweep-1048575", 0, 1048575 }, { "probe", -ENODEV, 9 }, { "list", -ENODEV, 9 },
                { "", -EINVAL, 9 }, { "remove", -EINVAL, 9 }, { "remove-", -EINVAL, 9 }, { "stop-7", -EINVAL, 9 }, { "state-7", -EINVAL, 9 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                uint32_t id = 9;

                g_assert_cmpint(control_instance_to_id(cases[i].instance, &id), ==, cases[i].r);
                g_assert_cmpuint(id, ==, cases[i].id);
        }
}

static void test_verbs(void) {
        for (ControlVerb v = 0; v < _CONTROL_VERB_MAX; v++)
                g_assert_cmpint(control_verb_from_string(control_verb_to_string(v)), ==, v);
        g_assert_cmpint(control_verb_from_string(""), ==, _CONTROL_VERB_INVALID);
        g_assert_null(control_verb_to_string(_CONTROL_VERB_MAX));
}

static void test_flags(void) {
        const uint64_t base = UBLK_F_USER_COPY | UBLK_F_CMD_IOCTL_ENCODE;

        g_assert_cmphex(activation_flags(RECOVERY_NONE), ==, base);
        g_assert_cmphex(activation_flags(RECOVERY_FAIL), ==, base | UBLK_F_USER_RECOVERY);
        g_assert_cmphex(activation_flags(RECOVERY_REISSUE), ==, base | UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE);
        /* Asked for although the kernel lacks it: so that it is missed, and not silently something else. */
        g_assert_cmphex(activation_flags(RECOVERY_FAIL_IO), ==, base | UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_FAIL_IO);
}

/* The list comes from /sys, sorted by number. */
static void test_list_ids(void) {
        char *root = g_dir_make_tmp("ublk-control-XXXXXX", NULL), *base = g_strconcat(root, "/sys/class/ublk-char", NULL);
        const char *names[] = { "ublkc10", "ublkc9", "ublkcx", "ublkb3", "ublkc1048576", "ublkc0" };
        uint32_t *ids = NULL;
        size_t n = 42;

        config_set_root(root);
        g_assert_cmpint(control_list_ids(&ids, &n), ==, 0); /* the driver is not there */
        g_assert_cmpuint(n, ==, 0);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char *path = g_build_filename(base, names[i], NULL);

                g_assert_cmpint(g_mkdir_with_parents(path, 0755), ==, 0);
                g_free(path);
        }
        g_assert_cmpint(control_list_ids(&ids, &n), ==, 0);
        g_assert_cmpuint(n, ==, 3);
        g_assert_cmpuint(ids[0], ==, 0);
        g_assert_cmpuint(ids[1], ==, 9);
        g_assert_cmpuint(ids[2], ==, 10);
        free(ids);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char *path = g_build_filename(base, names[i], NULL);

                g_rmdir(path);
                g_free(path);
        }
        for (const char *d = base; strlen(d) >= strlen(root);) {
                char *up = g_path_get_dirname(d);

                g_rmdir(d);
                strcpy(base, up);
                g_free(up);
        }
        config_set_root(NULL);
        g_free(base);
        g_free(root);
}

/* A worker that answers in ways of our choice: this very process, so that its pid is the right one. */

static char *socket_root;
static int listen_fd;

static void listen_begin(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        char *directory;

        socket_root = g_dir_make_tmp("ublk-link-XXXXXX", NULL);
        directory = g_strconcat(socket_root, "/run/ublk-ruby/3", NULL);
        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/worker.sock", directory);
        listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        g_assert_cmpint(bind(listen_fd, (struct sockaddr *) &address, sizeof(address)), ==, 0);
        g_assert_cmpint(listen(listen_fd, 4), ==, 0);
        g_free(directory);
        config_set_root(socket_root);
}

static void listen_end(void) {
        const char *parts[] = { "/run/ublk-ruby/3/worker.sock", "/run/ublk-ruby/3", "/run/ublk-ruby", "/run", "" };

        config_set_root(NULL);
        safe_close(listen_fd);
        for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
                char *path = g_strconcat(socket_root, parts[i], NULL);

                g_assert_cmpint(g_remove(path), ==, 0);
                g_free(path);
        }
        g_free(socket_root);
}

static void assert_call(int expected, const void *answer, size_t size) {
        WorkerLink l = WORKER_LINK_NULL;
        Failure f = FAILURE_NULL;
        WorkerReply reply;
        WorkerCall call;
        int fd, r;

        g_assert_cmpint(worker_link_connect(&l, 3, getpid(), now_usec() + USEC_PER_SEC, &f), ==, 0);
        g_assert_cmpuint(l.uid, ==, getuid());
        g_assert_true(worker_link_is_alive(&l));
        fd = accept(listen_fd, NULL, NULL);
        /* The answer may be there before the question. */
        if (size > 0)
                g_assert_cmpint(send(fd, answer, size, 0), ==, (ssize_t) size);
        else if (answer)
                shutdown(fd, SHUT_RDWR);
        r = worker_link_call(&l, MESSAGE_HELLO, now_usec() + 50 * USEC_PER_MSEC, &reply, &f);
        g_assert_cmpint(r, ==, expected);
        if (expected != -EOWNERDEAD) {
                g_assert_cmpint(recv(fd, &call, sizeof(call), 0), ==, sizeof(call));
                g_assert_cmpuint(call.version, ==, PROTOCOL_VERSION);
                g_assert_cmpuint(call.type, ==, MESSAGE_HELLO);
                g_assert_cmpuint(call.device_id, ==, 3);
        }
        if (r < 0)
                g_assert_nonnull(f.message);
        failure_done(&f);
        safe_close(fd);
        worker_link_done(&l);
}

static WorkerReply good_reply(void) {
        return (WorkerReply) { .version = PROTOCOL_VERSION, .type = MESSAGE_HELLO, .device_id = 3 };
}

static void test_worker_link(void) {
        WorkerReply reply = good_reply();
        static const char text[] = "{\"kind\":\"hook\",\"errno\":2,\"message\":\"m\"}";

        listen_begin();
        assert_call(0, &reply, sizeof(reply));
        assert_call(-ETIMEDOUT, NULL, 0);
        assert_call(-EOWNERDEAD, "", 0);
        assert_call(-EBADMSG, &reply, sizeof(reply) - 1);
        assert_call(-EBADMSG, "x", 1);
        reply.version++;
        assert_call(-EBADMSG, &reply, sizeof(reply));
        reply = good_reply();
        reply.type = MESSAGE_OPEN;
        assert_call(-EBADMSG, &reply, sizeof(reply));
        reply = good_reply();
        reply.device_id = 4;
        assert_call(-EBADMSG, &reply, sizeof(reply));
        reply = good_reply();
        reply.text_size = sizeof(reply.text);
        assert_call(-EBADMSG, &reply, sizeof(reply));
        reply = good_reply();
        reply.error = EBUSY;
        assert_call(-EBUSY, &reply, sizeof(reply));
        reply.error = INT32_MIN;
        assert_call(-EIO, &reply, sizeof(reply));
        reply.error = EIO;
        reply.text_size = sizeof(text) - 1;
        memcpy(reply.text, text, sizeof(text));
        assert_call(-ENOENT, &reply, sizeof(reply));
        listen_end();
}

static void test_wrong_worker(void) {
        WorkerLink l = WORKER_LINK_NULL;
        Failure f = FAILURE_NULL;

        listen_begin();
        /* A socket that another process serves, and one that nobody does. */
        g_assert_cmpint(worker_link_connect(&l, 3, getppid(), 0, &f), ==, -EPERM);
        worker_link_done(&l);
        g_assert_cmpint(worker_link_connect(&l, 4, getpid(), 0, &f), ==, -ENOENT);
        worker_link_done(&l);
        g_assert_cmpint(worker_link_connect(&l, 3, INT32_MAX, 0, &f), <, 0);
        worker_link_done(&l);
        failure_done(&f);
        listen_end();
}

/* The directory is the worker's, and whoever follows what it has put there is root. */
static void test_lured(void) {
        WorkerLink l = WORKER_LINK_NULL;
        Failure f = FAILURE_NULL;
        char *entry, *aside;

        listen_begin();
        entry = g_strconcat(socket_root, "/run/ublk-ruby/3/worker.sock", NULL);
        aside = g_strconcat(socket_root, "/run/ublk-ruby/3/aside", NULL);
        g_assert_cmpint(g_rename(entry, aside), ==, 0);
        g_assert_cmpint(symlink(aside, entry), ==, 0);
        g_assert_cmpint(worker_link_connect(&l, 3, getpid(), 0, &f), ==, -ELOOP);
        worker_link_done(&l);
        g_assert_cmpint(unlink(entry), ==, 0);
        g_assert_true(g_file_set_contents(entry, "", 0, NULL));
        g_assert_cmpint(worker_link_connect(&l, 3, getpid(), 0, &f), ==, -ENOTSOCK);
        worker_link_done(&l);
        g_assert_cmpint(g_rename(aside, entry), ==, 0);
        failure_done(&f);
        g_free(aside);
        g_free(entry);
        listen_end();
}

/* Others crowd the socket: that is no reason to give up before the deadline. */
static void test_crowded_worker(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int crowd[32], n = 0, status;
        WorkerLink l = WORKER_LINK_NULL;
        Failure f = FAILURE_NULL;
        pid_t pid;

        listen_begin();
        g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/run/ublk-ruby/3/worker.sock", socket_root);
        do
                crowd[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        while (connect(crowd[n++], (struct sockaddr *) &address, sizeof(address)) == 0);
        g_assert_cmpint(errno, ==, EAGAIN);
        g_assert_cmpint(worker_link_connect(&l, 3, getpid(), now_usec() + 50 * USEC_PER_MSEC, &f), ==, -ETIMEDOUT);
        worker_link_done(&l);
        pid = fork();
        if (pid == 0) {
                (void) usleep(50 * 1000);
                _exit(accept(listen_fd, NULL, NULL) < 0);
        }
        g_assert_cmpint(worker_link_connect(&l, 3, getpid(), now_usec() + 10 * USEC_PER_SEC, &f), ==, 0);
        worker_link_done(&l);
        g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
        g_assert_cmpint(status, ==, 0);
        while (n > 0)
                close(crowd[--n]);
        failure_done(&f);
        listen_end();
}

static void test_deadline(void) {
        Activation a = { .deadline_usec = 0 };
        uint64_t now = now_usec();

        g_assert_cmpuint(activation_deadline(&a, USEC_PER_SEC), >=, now + USEC_PER_SEC);
        a.deadline_usec = now + USEC_PER_SEC;
        g_assert_cmpuint(activation_deadline(&a, 5 * USEC_PER_SEC), ==, a.deadline_usec);
        g_assert_cmpuint(activation_deadline(&a, 5), <, a.deadline_usec);
        a.deadline_usec = 1; /* long past */
        g_assert_cmpuint(activation_deadline(&a, USEC_PER_SEC), ==, 1);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/control/arguments", test_arguments);
        g_test_add_func("/control/bad-arguments", test_bad_arguments);
        g_test_add_func("/control/instances", test_instances);
        g_test_add_func("/control/instance-ids", test_instance_ids);
        g_test_add_func("/control/verbs", test_verbs);
        g_test_add_func("/control/flags", test_flags);
        g_test_add_func("/control/list-ids", test_list_ids);
        g_test_add_func("/control/worker-link", test_worker_link);
        g_test_add_func("/control/wrong-worker", test_wrong_worker);
        g_test_add_func("/control/lured", test_lured);
        g_test_add_func("/control/crowded-worker", test_crowded_worker);
        g_test_add_func("/control/deadline", test_deadline);
        return g_test_run();
}
