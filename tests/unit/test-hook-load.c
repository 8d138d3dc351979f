/* SPDX-License-Identifier: MIT */

/* Good and bad scripts: which class is the target, what it reports as its shape, and what the user hears. */

#include "test-hook.h"

#include <glib/gstdio.h>
#include <signal.h>

#define DISK(name) "class " name " < UBLK::Target\n" \
        "  def initialize = super(size: 1 << 20)\n" \
        "  def read(offset, length) = \"\\0\" * length\n" \
        "  def write(offset, data) = data.bytesize\n" \
        "end\n"

static void test_default_geometry(void) {
        g_assert_cmpint(rig_load("plain", DISK("Plain"), NULL), ==, 0);
        g_assert_cmpuint(rig.geometry.size, ==, 1 << 20);
        g_assert_cmpuint(rig.geometry.logical_block_size, ==, 512);
        g_assert_cmpuint(rig.geometry.physical_block_size, ==, 4096);
        g_assert_cmpuint(rig.geometry.recovery, ==, RECOVERY_NONE);
        g_assert_false(rig.geometry.read_only);
        g_assert_false(rig.geometry.rotational);
        g_assert_false(rig.geometry.can_discard);
        g_assert_false(rig.geometry.can_write_zeroes);
}

/* Nothing of a class that declares more than the unit gives is run. */
static void test_needs(void) {
        static const char body[] = "class Far < UBLK::Target\n"
                                   "  network true\n"
                                   "  def initialize = raise('built')\n"
                                   "  def read(offset, length) = nil\n"
                                   "end\n"
                                   "class Fast < UBLK::Layer\n"
                                   "  jit true\n"
                                   "end\n"
                                   "use Fast\n";
        static const struct {
                Grants grants;
                const char *needs;
        } cases[] = {
                { { false, false }, "network jit" },
                { { true, false }, "jit" },
                { { false, true }, "network" },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                HookSettings settings = { .grants = &cases[i].grants };

                g_assert_cmpint(rig_load_with("far", body, NULL, &settings), ==, -EPERM);
                rig_assert_failure(FAILURE_NEEDS, WORDS("what the hook far needs", "ublkctl restart disk0"));
                g_assert_cmpstr(rig.failure.needs, ==, cases[i].needs);
        }
        g_assert_cmpint(rig_load_with("far", body, NULL, &(HookSettings) { .grants = &(Grants) { true, true } }), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("built"));
        g_assert_null(rig.failure.needs);
        /* Without a unit there is nothing to be had of it. */
        g_assert_cmpint(rig_load("far", body, NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("built"));
}

static void test_own_geometry(void) {
        g_assert_cmpint(rig_load("own", "class Own < UBLK::Target\n"
                                        "  recovery :fail_io\n"
                                        "  def initialize\n"
                                        "    super(size: 8192)\n"
                                        "    define_singleton_method(:write_zeroes) { |offset, length| 0 }\n"
                                        "  end\n"
                                        "  def logical_block_size = 4096\n"
                                        "  def physical_block_size = 65536\n"
                                        "  def read_only? = true\n"
                                        "  def rotational? = true\n"
                                        "  def read(offset, length) = nil\n"
                                        "  def discard(offset, length) = 0\n"
                                        "end\n", NULL), ==, 0);
        g_assert_cmpuint(rig.geometry.logical_block_size, ==, 4096);
        g_assert_cmpuint(rig.geometry.physical_block_size, ==, 65536);
        g_assert_cmpuint(rig.geometry.recovery, ==, RECOVERY_FAIL_IO);
        g_assert_true(rig.geometry.read_only && rig.geometry.rotational);
        g_assert_true(rig.geometry.can_discard && rig.geometry.can_write_zeroes);
}

static void test_which_class(void) {
        const char *two = DISK("First") DISK("Second");
        g_autofree char *run = g_strconcat(two, "run Second\n", NULL), *base = g_strconcat(DISK("Base"), "class Leaf < Base; end\n", NULL);
        HookSettings choose = { .class_name = "First" };

        g_assert_cmpint(rig_load("two", two, NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("First, Second", "run First"));
        g_assert_cmpint(rig_load("two", run, NULL), ==, 0);
        g_assert_cmpint(rig_load("leaf", base, NULL), ==, 0);
        g_assert_cmpint(rig_load_with("two", two, NULL, &choose), ==, 0);
        choose.class_name = "Third";
        g_assert_cmpint(rig_load_with("two", two, NULL, &choose), ==, -EINVAL);
        rig_assert_failure(FAILURE_ARGUMENTS, WORDS("class: Third", "First, Second"));
        choose.class_name = "String";
        g_assert_cmpint(rig_load_with("two", two, NULL, &choose), ==, -EINVAL);
        choose.class_name = "system('true')";
        g_assert_cmpint(rig_load_with("two", two, NULL, &choose), ==, -EINVAL);
}

static void test_class_of_another_file(void) {
        g_autofree char *helper = g_build_filename(rig.directory, "helper.rb", NULL);

        g_assert_true(g_file_set_contents(helper, DISK("FromHelper"), -1, NULL));
        g_assert_cmpint(rig_load("requires", "require_relative 'helper'\nclass Mine < FromHelper; end\n", NULL), ==, 0);
        g_assert_cmpint(rig_load("empty", "require_relative 'helper'\n", NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("defines no subclass of UBLK::Target"));
}

static void test_wrong_run(void) {
        g_assert_cmpint(rig_load("run", "run String\n", NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("run takes a subclass", "String"));
        g_assert_cmpuint(rig.failure.line, ==, 1);
        g_assert_cmpint(rig_load("run", DISK("Twice") "run Twice\nrun Twice\n", NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("run was called twice"));
        g_assert_cmpuint(rig.failure.line, ==, 7);
}

static void test_no_script(void) {
        g_free(rig.script);
        rig.script = g_build_filename(rig.directory, "nowhere.rb", NULL);
        g_assert_cmpint(rig_load("nowhere", NULL, NULL), ==, -ENOENT);
        rig_assert_failure(FAILURE_NO_HOOK, WORDS("nowhere.rb"));

        g_free(rig.script);
        rig.script = g_strdup(rig.directory);
        g_assert_cmpint(rig_load("directory", NULL, NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("is not a file"));
}

static void test_unreadable(void) {
        bool root = geteuid() == 0;

        g_assert_cmpint(rig_load("closed", DISK("Closed"), NULL), ==, 0);
        g_assert_cmpint(g_chmod(rig.script, 0), ==, 0);
        g_assert_cmpint(g_chmod(rig.directory, 0711), ==, 0);
        if (root) /* who reads every file */
                g_assert_cmpint(seteuid(65534), ==, 0);
        g_assert_cmpint(rig_load("closed", NULL, NULL), <, 0);
        if (root)
                g_assert_cmpint(seteuid(0), ==, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("can't be read by the user", "chmod a+r"));
}

static void assert_raises(const char *body, const char *class_name, const char *word, unsigned line) {
        g_assert_cmpint(rig_load("bad", body, NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS(word));
        if (class_name)
                g_assert_cmpstr(rig.failure.class_name, ==, class_name);
        g_assert_cmpstr(rig.failure.file, ==, rig.script);
        g_assert_cmpuint(rig.failure.line, ==, line);
}

static void test_raising_scripts(void) {
        assert_raises("\nclass Bad <\n", "SyntaxError", "syntax error", 2);
        assert_raises("\n\nnonsense\n", "NameError", "nonsense", 3);
        assert_raises("require 'no/such/library'\n", "LoadError", "no/such/library", 1);
        assert_raises("\nexit 0\n", "SystemExit", "exit", 2);
        assert_raises("\nabort 'because'\n", "SystemExit", "because", 2);
        assert_raises("throw :away\n", "UncaughtThrowError", "away", 1);
        assert_raises("def deep = deep\ndeep\n", "SystemStackError", "stack level", 1);
        assert_raises("raise Class.new(StandardError) { def message = raise('again') }\n", NULL, "can't be had", 1);
        assert_raises("raise Interrupt\n", "Interrupt", "Interrupt", 1);
        assert_raises("raise \"caf\\xe9\\0!\".b\n", "RuntimeError", "caf", 1);
        assert_raises("\nThread.main.kill\nsleep\n", "SystemExit", "exit", 2);
}

/* Everything but the target. */
static void test_examine(void) {
        HookSettings settings = { .name = "examined", .device = "disk0" };
        Argument wrong = { (char *) "sise", 's', (char *) "1" };
        Failure f = FAILURE_NULL;

        (void) rig_load("examined", "class Examined < UBLK::Target\n"
                                    "  option :size, :bytes\n"
                                    "  def initialize(size: 0) = raise('built')\n"
                                    "  def read(offset, length) = nil\n"
                                    "end\n", NULL);
        rig_assert_failure(FAILURE_HOOK, WORDS("built"));
        settings.path = rig.script;
        g_assert_cmpint(hook_examine(rig.hook, &settings, &f), ==, 0);
        settings.arguments = &wrong;
        settings.n_arguments = 1;
        g_assert_cmpint(hook_examine(rig.hook, &settings, &f), ==, -EINVAL);
        g_assert_nonnull(strstr(f.message, "has no option \"sise\""));
        g_assert_true(g_file_set_contents(rig.script, "\nclass Bad <\n", -1, NULL));
        g_assert_cmpint(hook_examine(rig.hook, &settings, &f), <, 0);
        g_assert_cmpstr(f.class_name, ==, "SyntaxError");
        failure_done(&f);
}

static void test_raising_initialize(void) {
        assert_raises("class Bad < UBLK::Target\n"
                      "  def read(offset, length) = nil\n"
                      "  def initialize\n"
                      "    helper\n"
                      "  end\n"
                      "  def helper = File.open('/no/such/file')\n"
                      "end\n", "Errno::ENOENT", "/no/such/file", 6);
        g_assert_cmpint(rig.failure.error, ==, ENOENT);
}

static void test_child_of_script(void) {
        g_assert_cmpint(rig_load("forks", DISK("Forks") "if (pid = fork)\n  Process.wait(pid)\n"
                                          "  raise \"status #{$?.exitstatus}\" unless $?.exitstatus == 70\nend\n", NULL), ==, 0);
}

/* NAME, what initialize and the geometry methods say, and what the message has. */
static void test_bad_geometry(void) {
        static const struct {
                const char *body, *word;
        } cases[] = {
                { "def initialize = super(size: 0)", "above 0, not 0" },
                { "def initialize = super(size: -512)", "above 0" },
                { "def initialize = super(size: 1000)", "multiple of 512" },
                { "def initialize = super(size: 1 << 63)", "below 2^63" },
                { "def initialize = super(size: (1 << 64) - 1)", "below 2^63" },
                { "def initialize = super(size: 512.0)", "an Integer" },
                { "def initialize = super(size: nil)", "an Integer" },
                { "def initialize; end", "does initialize call super" },
                { "def initialize; end; def size = 0", "size is 0" },
                { "def initialize; end; def size = 1 << 64", "size must be" },
                { "def initialize; end; def size = (1 << 64) - 1", "size is 18446744073709551615" },
                { "def initialize; end; def size = 4096.0", "size must be" },
                { "def initialize = super(size: 4096); def logical_block_size = 8192", "multiple of 8192" },
                { "def initialize = super(size: 8192); def logical_block_size = 8192", "logical_block_size is 8192" },
                { "def initialize = super(size: 4096); def logical_block_size = 256", "logical_block_size is 256" },
                { "def initialize = super(size: 4096); def physical_block_size = 1 << 40", "physical_block_size must be" },
                { "def initialize = super(size: 4096); def physical_block_size = 'x'", "physical_block_size must be" },
                { "def initialize = super(size: 4096); recovery :always", "recovery is one of" },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                g_autofree char *body = g_strdup_printf("class Shape < UBLK::Target\n"
                                                        "  def read(offset, length) = nil\n  def write(offset, data) = nil\n"
                                                        "  %s\nend\n", cases[i].body);
                g_assert_cmpint(rig_load("shape", body, NULL), <, 0);
                rig_assert_failure(FAILURE_HOOK, WORDS(cases[i].word));
                g_assert_cmpstr(rig.failure.file, ==, rig.script);
        }
}

static void test_missing_methods(void) {
        HookSettings read_only = { .read_only = true };
        const char *reader = "class Reader < UBLK::Target\n  def initialize = super(size: 512)\n  def read(offset, length) = nil\nend\n";

        g_assert_cmpint(rig_load("empty", "class Empty < UBLK::Target\n  def initialize = super(size: 512)\nend\n", NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("Empty does not define read"));
        g_assert_cmpint(rig_load("reader", reader, NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("Reader does not define write", "read_only?"));
        g_assert_cmpint(rig_load_with("reader", reader, NULL, &read_only), ==, 0);
        g_assert_true(rig.geometry.read_only);
}

static void test_recovery(void) {
        HookSettings asked = { .recovery = RECOVERY_REISSUE };
        g_autofree char *declares = g_strconcat(DISK("Keeps"), "Keeps.recovery :reissue\n", NULL);
        g_autofree char *once = g_strconcat(DISK("Once"), "Once.recovery :fail_io\n", NULL);

        g_assert_cmpint(rig_load_with("loses", DISK("Loses"), NULL, &asked), ==, -EINVAL);
        rig_assert_failure(FAILURE_ARGUMENTS, WORDS("recovery", "loses declares none"));
        g_assert_cmpint(rig_load("keeps", declares, NULL), ==, 0);
        g_assert_cmpuint(rig.geometry.recovery, ==, RECOVERY_REISSUE);
        g_assert_cmpint(rig_load_with("once", once, NULL, &asked), ==, -EINVAL);
        rig_assert_failure(FAILURE_ARGUMENTS, WORDS("once declares fail-io", "given to it twice", "can't be reissue"));
        asked.recovery = RECOVERY_FAIL;
        g_assert_cmpint(rig_load_with("once", once, NULL, &asked), ==, 0);
        g_assert_cmpint(rig_load_with("keeps", declares, NULL, &asked), ==, 0);
        g_assert_cmpuint(rig.geometry.recovery, ==, RECOVERY_FAIL);
        asked.recovery = RECOVERY_NONE;
        g_assert_cmpint(rig_load_with("loses", DISK("Loses"), NULL, &asked), ==, 0);
}

static void on_signal(int signo) {
        (void) signo;
}

static void test_trap(void) {
        struct sigaction now;

        g_assert_cmpint(rig_load("trap", DISK("Traps") "trap('TERM') { }\ntrap('USR2', 'DEFAULT')\n", NULL), ==, 0);
        g_assert_cmpint(sigaction(SIGTERM, NULL, &now), ==, 0);
        g_assert_true(now.sa_handler == on_signal);
        g_assert_cmpint(sigaction(SIGUSR2, NULL, &now), ==, 0);
        g_assert_true(now.sa_handler == on_signal);
}

static void test_process(void) {
        g_assert_cmpint(rig_load("process", DISK("Titled")
                                 "raise Encoding.default_external.to_s unless Encoding.default_external == Encoding::UTF_8\n"
                                 "raise ENV['RUBYOPT'] if ENV.key?('RUBYOPT')\n"
                                 "raise ENV['GEM_HOME'] if ENV.key?('GEM_HOME')\n"
                                 "raise UBLK.device_name unless UBLK.device_name == 'disk0'\n"
                                 "raise 'no gems' unless defined?(Gem) && require('json').nil?.!\n"
                                 "Process.setproctitle('t' * 200)\n$0 = 'u' * 400\n", NULL), ==, 0);
}

#define KEEPS DISK("Keeps") "class Keeps\n" \
        "  def initialize\n" \
        "    super(size: 1 << 20)\n" \
        "    File.write(File.join(state_directory, 'bitmap'), UBLK.state_directory)\n" \
        "  end\n" \
        "end\n"

/* Made when the hook first asks for it, for this device. */
static void test_state_directory(void) {
        g_autofree char *base = g_build_filename(rig.directory, "state", NULL), *path = g_build_filename(base, "disk0", NULL);
        g_autofree char *bitmap = g_build_filename(path, "bitmap", NULL), *owner = g_build_filename(base, ".disk0.owner", NULL);
        g_autofree char *text = NULL, *line = NULL;
        HookSettings settings = { .state_directory = path, .state_owner = 7 };

        g_assert_cmpint(rig_load_with("keeps", KEEPS, NULL, &settings), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS(path, "systemd-tmpfiles --create"));
        g_assert_cmpint(g_mkdir(base, 0700), ==, 0);
        g_assert_cmpint(rig_load_with("plain", DISK("Plain"), NULL, &settings), ==, 0);
        g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
        g_assert_cmpint(rig_load_with("keeps", KEEPS, NULL, &settings), ==, 0);
        g_assert_true(g_file_get_contents(bitmap, &text, NULL, NULL));
        g_assert_cmpstr(text, ==, path);
        g_assert_true(g_file_get_contents(owner, &line, NULL, NULL));
        g_assert_cmpstr(line, ==, "7 made\n");
        /* What another device has left there is not this one's. */
        settings.state_owner = 8;
        g_assert_cmpint(rig_load_with("keeps", KEEPS "raise 'stale' if File.exist?(File.join(UBLK.state_directory, 'bitmap'))\n", NULL, &settings), ==, 0);
        line = (g_free(line), g_strdup_printf("rm -r '%s'", base));
        g_assert_cmpint(system(line), ==, 0);
}

void add_load_tests(void) {
        (void) signal(SIGTERM, on_signal);
        (void) signal(SIGUSR2, on_signal);
        g_setenv("RUBYOPT", "-rno/such/library", TRUE);
        g_setenv("GEM_HOME", "/nonexistent", TRUE);

        g_test_add_func("/hook/load/default-geometry", test_default_geometry);
        g_test_add_func("/hook/load/own-geometry", test_own_geometry);
        g_test_add_func("/hook/load/class-of-another-file", test_class_of_another_file);
        g_test_add_func("/hook/load/wrong-run", test_wrong_run);
        g_test_add_func("/hook/load/no-script", test_no_script);
        g_test_add_func("/hook/load/unreadable", test_unreadable);
        g_test_add_func("/hook/load/examine", test_examine);
        g_test_add_func("/hook/load/raising-initialize", test_raising_initialize);
        g_test_add_func("/hook/load/child-of-script", test_child_of_script);
        g_test_add_func("/hook/load/missing-methods", test_missing_methods);
        g_test_add_func("/hook/load/recovery", test_recovery);
        g_test_add_func("/hook/load/state-directory", test_state_directory);
        g_test_add_func("/hook/load/trap", test_trap);
        if (mode_collects()) /* minutes: many scripts that do no more than load, or RubyGems */
                return;
        g_test_add_func("/hook/load/needs", test_needs);
        g_test_add_func("/hook/load/bad-geometry", test_bad_geometry);
        g_test_add_func("/hook/load/which-class", test_which_class);
        g_test_add_func("/hook/load/raising-scripts", test_raising_scripts);
        g_test_add_func("/hook/load/process", test_process);
}
