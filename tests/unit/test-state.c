/* SPDX-License-Identifier: MIT */

/* State directories: whose they are, and that what a hook has put there goes, and nothing else does. */

#include "service/config.h"
#include "service/state.h"

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ONE 1700000000000000u
#define OTHER 1700000000000001u

static char *root;
static char *base;

static void begin(void) {
        root = g_dir_make_tmp("ublk-state-XXXXXX", NULL);
        config_set_root(root);
        base = g_strconcat(root, "/var/lib/ublk-ruby", NULL);
        g_assert_cmpint(g_mkdir_with_parents(base, 0755), ==, 0);
}

static void end(void) {
        g_autofree char *command = g_strdup_printf("rm -rf '%s'", root);

        config_set_root(NULL);
        g_assert_cmpint(system(command), ==, 0);
        g_clear_pointer(&root, g_free);
        g_clear_pointer(&base, g_free);
}

static char *below(const char *name) {
        return g_build_filename(base, name, NULL);
}

static bool there(const char *name) {
        g_autofree char *path = below(name);
        struct stat st;

        return lstat(path, &st) == 0;
}

static void put(const char *name, const char *text) {
        g_autofree char *path = below(name);

        g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void make(const char *name) {
        g_autofree char *path = below(name);

        g_assert_cmpint(g_mkdir_with_parents(path, 0700), ==, 0);
}

static char *contents(const char *name) {
        g_autofree char *path = below(name);
        char *text = NULL;

        (void) g_file_get_contents(path, &text, NULL, NULL);
        return text;
}

static int claim(const char *name, uint64_t owner) {
        g_autofree char *path = below(name);

        return state_claim(path, owner);
}

static int end_state(const char *name, uint64_t owner, StateEnd how) {
        g_autofree char *path = below(name);

        return state_remove(&(StateRemoval) { path, owner, how, now_usec() + 25 * USEC_PER_SEC });
}

/* Nothing at all, whatever its name. */
static void assert_empty(void) {
        g_autoptr(GDir) d = g_dir_open(base, 0, NULL);

        g_assert_cmpstr(g_dir_read_name(d), ==, NULL);
}

static void test_claim(void) {
        g_autofree char *path = NULL, *owner = NULL;
        struct stat st;

        begin();
        g_assert_false(state_exists("disk0"));
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        g_assert_true(state_exists("disk0"));
        path = below("disk0");
        g_assert_cmpint(stat(path, &st), ==, 0);
        g_assert_cmphex(st.st_mode & 07777, ==, 0700);
        owner = contents(".disk0.owner");
        g_assert_cmpstr(owner, ==, "1700000000000000 made\n");
        put("disk0/bitmap", "x");
        /* The same device again, after a crash or a reboot; and its hook may have removed it. */
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        g_assert_true(there("disk0/bitmap"));
        g_assert_cmpint(end_state("disk1", OTHER, STATE_DELETED), ==, 0);
        g_assert_true(there("disk0/bitmap"));
        g_assert_cmpint(end_state("disk0", ONE, STATE_DELETED), ==, 0);
        assert_empty();
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        g_assert_cmpint(g_rmdir(path), ==, 0);
        g_assert_true(state_exists("disk0"));
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        g_assert_true(there("disk0"));
        end();
}

/* An earlier device of the name that nobody deleted: a transient one, and the machine lost power. */
static void test_left_behind(void) {
        static const char *const owners[] = { "1700000000000001 made\n", "1700000000000001 found\n", "nonsense", "", "1 made" };

        for (size_t i = 0; i < G_N_ELEMENTS(owners); i++) {
                g_autofree char *owner = NULL;

                begin();
                make("disk0");
                put("disk0/bitmap", "stale");
                put(".disk0.owner", owners[i]);
                g_assert_cmpint(claim("disk0", ONE), ==, 0);
                g_assert_true(there("disk0"));
                g_assert_false(there("disk0/bitmap"));
                owner = contents(".disk0.owner");
                g_assert_cmpstr(owner, ==, "1700000000000000 made\n");
                g_assert_cmpint(end_state("disk0", ONE, STATE_DELETED), ==, 0);
                assert_empty();
                end();
        }
}

static void test_kept(void) {
        g_autofree char *owner = NULL, *text = NULL;

        begin();
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        put("disk0/bitmap", "kept");
        g_assert_cmpint(end_state("disk0", ONE, STATE_KEPT), ==, 0);
        g_assert_true(there("disk0/bitmap"));
        g_assert_false(there(".disk0.owner"));
        /* A creation that does not come to it, or never gets there, leaves it as it was. */
        g_assert_cmpint(end_state("disk0", OTHER, STATE_UNDONE), ==, 0);
        g_assert_true(there("disk0/bitmap"));
        g_assert_cmpint(claim("disk0", OTHER), ==, 0);
        owner = contents(".disk0.owner");
        g_assert_cmpstr(owner, ==, "1700000000000001 found\n");
        g_assert_cmpint(end_state("disk0", OTHER, STATE_UNDONE), ==, 0);
        g_assert_true(there("disk0/bitmap"));
        g_assert_false(there(".disk0.owner"));
        /* Nor does a device that has no state take it along. */
        g_assert_cmpint(end_state("disk0", OTHER, STATE_DELETED), ==, 0);
        text = contents("disk0/bitmap");
        g_assert_cmpstr(text, ==, "kept");
        /* One that took it over does. */
        g_assert_cmpint(claim("disk0", OTHER), ==, 0);
        g_assert_true(there("disk0/bitmap"));
        g_assert_cmpint(end_state("disk0", OTHER, STATE_DELETED), ==, 0);
        assert_empty();
        end();
}

static void test_undone(void) {
        begin();
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        put("disk0/bitmap", "x");
        g_assert_cmpint(end_state("disk0", ONE, STATE_UNDONE), ==, 0);
        assert_empty();
        /* What is not its own it does not touch. */
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        g_assert_cmpint(end_state("disk0", OTHER, STATE_UNDONE), ==, 0);
        g_assert_true(there("disk0") && there(".disk0.owner"));
        /* Nor is another one's ever taken for kept. */
        g_assert_cmpint(end_state("disk0", OTHER, STATE_KEPT), ==, 0);
        assert_empty();
        end();
}

static void test_odd_places(void) {
        g_autofree char *link = NULL, *target = g_strconcat("/elsewhere", NULL), *full = NULL;

        begin();
        g_assert_cmpint(claim("..", ONE), ==, -EINVAL);
        g_assert_cmpint(claim(".disk0.owner", ONE), ==, -EINVAL);
        put("disk0", "a file");
        g_assert_cmpint(claim("disk0", ONE), ==, -ENOTDIR);
        /* A link that an administrator made leads to where there is room; deleting it does not. */
        full = g_strconcat(root, target, NULL);
        g_assert_cmpint(g_mkdir(full, 0700), ==, 0);
        link = below("disk1");
        g_assert_cmpint(symlink(full, link), ==, 0);
        g_assert_cmpint(claim("disk1", ONE), ==, 0);
        put("disk1/bitmap", "x");
        g_assert_cmpint(end_state("disk1", ONE, STATE_DELETED), ==, 0);
        g_assert_false(there("disk1"));
        link = (g_free(link), g_strconcat(full, "/bitmap", NULL));
        g_assert_true(g_file_test(link, G_FILE_TEST_EXISTS));
        end();

        begin();
        g_assert_cmpint(g_rmdir(base), ==, 0);
        g_assert_false(state_exists("disk0"));
        g_assert_cmpint(claim("disk0", ONE), ==, -ENOENT);
        g_assert_cmpint(end_state("disk0", ONE, STATE_DELETED), ==, 0);
        end();
}

/* Links out of it, hard links, things that can't be entered, pipes that nobody reads, names that are no text. */
static void test_hostile(void) {
        g_autofree char *victim = NULL, *inner = NULL, *path = NULL, *text = NULL;
        struct stat st;

        begin();
        victim = g_strconcat(root, "/victim", NULL);
        g_assert_cmpint(g_mkdir(victim, 0700), ==, 0);
        inner = g_strconcat(victim, "/file", NULL);
        g_assert_true(g_file_set_contents(inner, "precious", -1, NULL));
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        make("disk0/a/b/c");
        make("disk0/.0");
        make("disk0/locked/inside");
        path = below("disk0/to-directory");
        g_assert_cmpint(symlink(victim, path), ==, 0);
        path = (g_free(path), below("disk0/a/b/to-directory"));
        g_assert_cmpint(symlink(victim, path), ==, 0);
        path = (g_free(path), below("disk0/a/to-file"));
        g_assert_cmpint(symlink(inner, path), ==, 0);
        path = (g_free(path), below("disk0/a/hard"));
        g_assert_cmpint(link(inner, path), ==, 0);
        path = (g_free(path), below("disk0/a/to-root"));
        g_assert_cmpint(symlink("/", path), ==, 0);
        path = (g_free(path), below("disk0/a/loop"));
        g_assert_cmpint(symlink("loop", path), ==, 0);
        path = (g_free(path), below("disk0/a/pipe"));
        g_assert_cmpint(mkfifo(path, 0600), ==, 0);
        put("disk0/a/\n\xff ", "x");
        make("disk0/read-only/inside/inside");
        put("disk0/read-only/file", "x");
        path = (g_free(path), below("disk0/read-only"));
        g_assert_cmpint(chmod(path, 0500), ==, 0);
        path = (g_free(path), below("disk0/locked/inside"));
        g_assert_cmpint(chmod(path, 0), ==, 0);
        path = (g_free(path), below("disk0/locked"));
        g_assert_cmpint(chmod(path, 0), ==, 0);
        path = (g_free(path), below("disk0"));
        g_assert_cmpint(chmod(path, 0), ==, 0);
        g_assert_cmpint(end_state("disk0", ONE, STATE_DELETED), ==, 0);
        assert_empty();
        g_assert_true(g_file_get_contents(inner, &text, NULL, NULL));
        g_assert_cmpstr(text, ==, "precious");
        g_assert_cmpint(stat(inner, &st), ==, 0);
        g_assert_cmpuint(st.st_nlink, ==, 1);
        end();
}

/* Deeper than there are descriptors, and than a path may be long. */
static void test_deep(void) {
        g_autofree char *top = NULL;
        int fd;

        begin();
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        top = below("disk0");
        fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < 1500; i++) {
                int next;

                g_assert_cmpint(mkdirat(fd, "directory", 0700), ==, 0);
                g_assert_cmpint(symlinkat("..", fd, "up"), ==, 0);
                next = openat(fd, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                g_assert_cmpint(next, >=, 0);
                close(fd);
                fd = next;
        }
        close(fd);
        g_assert_cmpint(end_state("disk0", ONE, STATE_DELETED), ==, 0);
        assert_empty();
        end();
}

/* A child of the hook goes on putting things there. */
static void test_racing(void) {
        g_autofree char *top = NULL;
        int r, status;
        pid_t pid;

        begin();
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        top = below("disk0");
        pid = fork();
        if (pid == 0) {
                if (chdir(top) < 0)
                        _exit(1);
                for (unsigned i = 0; getppid() != 1; i++) {
                        char name[32];

                        (void) snprintf(name, sizeof(name), "%u", i % 64);
                        (void) mkdir(name, 0700);
                        (void) !symlink("/", name);
                        (void) !rename(name, "other");
                        (void) !chdir("other");
                }
                _exit(0);
        }
        g_usleep(50000);
        for (int i = 0; i < 10; i++) {
                r = state_remove(&(StateRemoval) { top, ONE, STATE_DELETED, now_usec() + USEC_PER_SEC / 10 });
                g_assert_true(r == 0 || r == -ETIMEDOUT || r == -ENOTEMPTY);
                g_assert_false(there("disk0"));
        }
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, &status, 0);
        g_assert_true(WIFSIGNALED(status));
        g_assert_cmpint(end_state("disk0", ONE, STATE_DELETED), ==, 0);
        assert_empty();
        end();
}

/* The name is free at once; what there was no time for is the next one's. */
static void test_out_of_time(void) {
        g_autofree char *top = NULL;

        begin();
        g_assert_cmpint(claim("disk0", ONE), ==, 0);
        make("disk0/a/b");
        top = below("disk0");
        g_assert_cmpint(state_remove(&(StateRemoval) { top, ONE, STATE_DELETED, now_usec() }), ==, -ETIMEDOUT);
        g_assert_false(state_exists("disk0"));
        g_assert_cmpint(claim("disk0", OTHER), ==, 0);
        g_assert_false(there("disk0/a"));
        g_assert_cmpint(end_state("disk1", ONE, STATE_DELETED), ==, 0);
        g_assert_cmpint(end_state("disk0", OTHER, STATE_DELETED), ==, 0);
        assert_empty();
        end();
}

/* In a child, which becomes another user and has mounts of its own. */
static void in_child(void (*f)(void)) {
        int status;
        pid_t pid;

        (void) fflush(NULL);
        pid = fork();
        if (pid == 0) {
                f();
                _exit(0);
        }
        g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
        g_assert_true(WIFEXITED(status));
        g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}

#define need(x) do { if (!(x)) { fprintf(stderr, "# line %d: %s (errno %d)\n", __LINE__, #x, errno); _exit(1); } } while (0)

/* As root: it is done as the user to whom all of it belongs. */
static void as_worker(void) {
        g_autofree char *path = below("disk0"), *roots = below("disk0/roots");
        struct stat st;

        need(chown(base, 12345, 12345) == 0 && chmod(root, 0755) == 0);
        need(claim("disk0", ONE) == 0 && chown(path, 12345, 12345) == 0);
        /* Nothing of this user's. */
        need(g_mkdir(roots, 0700) == 0);
        put("disk0/roots/file", "x");
        need(end_state("disk0", ONE, STATE_DELETED) == -EACCES);
        need(geteuid() == 12345 && getegid() == 12345);
        need(stat(path, &st) < 0);
}

static void with_mount(void) {
        g_autofree char *path = NULL, *precious = g_strconcat(root, "/precious", NULL), *file = g_strconcat(precious, "/file", NULL);

        need(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        need(g_mkdir(precious, 0700) == 0 && g_file_set_contents(file, "x", -1, NULL));
        need(claim("disk0", ONE) == 0);
        make("disk0/a/mounted");
        path = below("disk0/a/mounted");
        need(mount(precious, path, NULL, MS_BIND, NULL) == 0);
        need(end_state("disk0", ONE, STATE_DELETED) < 0);
        need(!state_exists("disk0"));
        need(g_file_test(file, G_FILE_TEST_EXISTS));
}

static void test_root(void) {
        if (geteuid() != 0)
                return;
        begin();
        in_child(as_worker);
        end();
        begin();
        in_child(with_mount);
        end();
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/state/claim", test_claim);
        g_test_add_func("/state/left-behind", test_left_behind);
        g_test_add_func("/state/kept", test_kept);
        g_test_add_func("/state/undone", test_undone);
        g_test_add_func("/state/odd-places", test_odd_places);
        g_test_add_func("/state/hostile", test_hostile);
        g_test_add_func("/state/deep", test_deep);
        g_test_add_func("/state/racing", test_racing);
        g_test_add_func("/state/out-of-time", test_out_of_time);
        g_test_add_func("/state/root", test_root);
        return g_test_run();
}
