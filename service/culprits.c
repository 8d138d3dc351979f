/* SPDX-License-Identifier: MIT */
#include "service/culprits.h"

#include "service/log.h"
#include "service/paths.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>

#define MAX_FILE 4096

typedef struct Culprit {
        uint8_t op;
        unsigned deaths;
        uint64_t offset;
        uint64_t length;
} Culprit;

struct Culprits {
        const DeviceConfig *config;
        pthread_mutex_t lock; /* over what follows */
        Culprit list[CULPRITS_MAX]; /* the latest first */
        _Atomic size_t n;           /* read without it, too: mostly there are none */
        bool news;

        Server guard;
        const Server *server;
        void (*report)(void *userdata, const Request *request, const Failure *f);
        void *userdata;
};

static int culprits_path(const Culprits *c, char **ret) {
        return config_path(ret, PATH_WORKER_CULPRITS, c->config->id);
}

static int parse_culprit(char *line, Culprit *ret) {
        static const uint64_t limits[] = { UINT8_MAX, UINT64_MAX, UINT64_MAX, UINT_MAX };
        uint64_t numbers[ELEMENTSOF(limits)];

        for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
                const char *word = strsep(&line, " ");

                if (!word || parse_u64(word, limits[i], &numbers[i]) < 0)
                        return -EINVAL;
        }
        *ret = (Culprit) { .op = (uint8_t) numbers[0], .offset = numbers[1], .length = numbers[2], .deaths = (unsigned) numbers[3] };
        return line ? -EINVAL : 0;
}

/* "TAG NEWS", then "OP OFFSET LENGTH DEATHS" for each. What can't be read is not there. */
static void parse(Culprits *c, char *text) {
        char *line = strsep(&text, "\n");
        unsigned news;
        uint64_t tag;

        if (sscanf(line, "%16" SCNx64 " %1u", &tag, &news) != 2 || tag != device_config_kernel_tag(c->config))
                return;
        while (c->n < CULPRITS_MAX && (line = strsep(&text, "\n")) && parse_culprit(line, &c->list[c->n]) >= 0)
                c->n++;
        c->news = news && c->n > 0;
}

static int serialize(const Culprits *c, char **ret) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return -ENOMEM;
        fprintf(f, "%" PRIx64 " %u\n", device_config_kernel_tag(c->config), c->news);
        for (size_t i = 0; i < c->n; i++)
                fprintf(f, "%u %" PRIu64 " %" PRIu64 " %u\n", c->list[i].op, c->list[i].offset, c->list[i].length, c->list[i].deaths);
        if (fclose(f) != 0) {
                free(text);
                return -ENOMEM;
        }
        *ret = text;
        return 0;
}

static void save(const Culprits *c) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        int r;

        r = culprits_path(c, &path);
        if (r >= 0 && c->n == 0)
                r = unlink(path) < 0 && errno != ENOENT ? -errno : 0;
        else if (r >= 0) {
                r = serialize(c, &text);
                if (r >= 0)
                        r = write_file_atomic(path, text, strlen(text), 0600);
        }
        if (r < 0)
                log_warning("Can't note at which requests workers of %s ended, ignoring: %s", c->config->name, strerror(-r));
}

int culprits_new(const DeviceConfig *config, Culprits **ret) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        Culprits *c = calloc(1, sizeof(Culprits));

        if (!c)
                return -ENOMEM;
        c->config = config;
        c->lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        if (culprits_path(c, &path) >= 0 && read_file(path, MAX_FILE, &text, NULL) >= 0)
                parse(c, text);
        *ret = c;
        return 0;
}

static size_t find(const Culprits *c, uint8_t op, uint64_t offset, uint64_t length) {
        size_t i = 0;

        while (i < c->n && (c->list[i].op != op || c->list[i].offset != offset || c->list[i].length != length))
                i++;
        return i;
}

static void remove_at(Culprits *c, size_t i) {
        memmove(&c->list[i], &c->list[i + 1], (c->n - i - 1) * sizeof(Culprit));
        c->n--;
}

void culprits_note(Culprits *c, const CallView *call) {
        Culprit x = { .op = call->op, .offset = call->offset, .length = call->length };
        size_t i;

        pthread_mutex_lock(&c->lock);
        i = find(c, x.op, x.offset, x.length);
        if (i < c->n) {
                x.deaths = c->list[i].deaths;
                remove_at(c, i);
        } else if (c->n == CULPRITS_MAX)
                c->n--;
        x.deaths++;
        memmove(&c->list[1], &c->list[0], c->n * sizeof(Culprit));
        c->list[0] = x;
        c->n++;
        c->news = true;
        save(c);
        pthread_mutex_unlock(&c->lock);
}

void culprits_forget(Culprits *c) {
        pthread_mutex_lock(&c->lock);
        c->n = 0;
        save(c);
        pthread_mutex_unlock(&c->lock);
}

bool culprits_take_news(Culprits *c, CallView *ret) {
        bool news;

        pthread_mutex_lock(&c->lock);
        news = c->news;
        if (news) {
                *ret = (CallView) { .op = c->list[0].op, .offset = c->list[0].offset, .length = c->list[0].length };
                c->news = false;
                save(c);
        }
        pthread_mutex_unlock(&c->lock);
        return news;
}

static bool is_refused(Culprits *c, const Request *r) {
        bool refused;
        size_t i;

        pthread_mutex_lock(&c->lock);
        i = find(c, r->op, r->offset, r->length);
        refused = i < c->n && c->list[i].deaths >= CULPRIT_DEATHS;
        pthread_mutex_unlock(&c->lock);
        return refused;
}

/* They have an answer, and the worker is alive. */
static void acquit(Culprits *c, Request *const *requests, size_t n) {
        bool changed = false;

        pthread_mutex_lock(&c->lock);
        for (size_t k = 0; k < n; k++) {
                size_t i = find(c, requests[k]->op, requests[k]->offset, requests[k]->length);

                if (i == c->n)
                        continue;
                remove_at(c, i);
                changed = true;
        }
        if (changed)
                save(c);
        pthread_mutex_unlock(&c->lock);
}

static void refuse(const Culprits *c, Request *r) {
        Failure f = FAILURE_NULL;

        r->result = -ETIMEDOUT;
        (void) failure_set(&f, FAILURE_HOOK, ETIMEDOUT, "%d workers were ended at this request, as it was not done within hook-timeout; "
                                                        "it is not given to the hook again", CULPRIT_DEATHS);
        (void) failure_set_origin(&f, "UBLK::HookTimeout", NULL, 0);
        c->report(c->userdata, r, &f);
        failure_done(&f);
}

static void pass_on(Culprits *c, Request *const *requests, size_t n) {
        if (n == 0)
                return;
        c->server->serve(c->server->userdata, requests, n);
        acquit(c, requests, n);
}

/* What lies between those that are refused goes on as one batch each. */
static void guard_serve(void *userdata, Request *const *requests, size_t n) {
        Culprits *c = userdata;
        size_t begin = 0;

        if (c->n == 0) {
                c->server->serve(c->server->userdata, requests, n);
                return;
        }
        for (size_t i = 0; i < n; i++) {
                if (!is_refused(c, requests[i]))
                        continue;
                pass_on(c, requests + begin, i - begin);
                refuse(c, requests[i]);
                acquit(c, requests + i, 1);
                begin = i + 1;
        }
        pass_on(c, requests + begin, n - begin);
}

static void guard_unlocked(void *userdata, void (*fn)(void *argument), void *argument) {
        const Culprits *c = userdata;

        c->server->unlocked(c->server->userdata, fn, argument);
}

static void guard_tidy(void *userdata) {
        const Culprits *c = userdata;

        c->server->tidy(c->server->userdata);
}

static bool guard_wants_tidy(void *userdata) {
        const Culprits *c = userdata;

        return c->server->wants_tidy && c->server->wants_tidy(c->server->userdata);
}

const Server *culprits_guard(Culprits *c, const Server *server, void (*report)(void *userdata, const Request *request, const Failure *f),
                             void *userdata) {
        if (c->n == 0)
                return server;
        c->server = server;
        c->report = report;
        c->userdata = userdata;
        c->guard = (Server) { .userdata = c, .serve = guard_serve, .unlocked = guard_unlocked, .tidy = guard_tidy,
                              .wants_tidy = guard_wants_tidy };
        return &c->guard;
}
