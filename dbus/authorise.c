/* SPDX-License-Identifier: MIT */
#include "dbus/authorise.h"

#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/log.h"

#include <stdarg.h>

#define POLKIT_NAME "org.freedesktop.PolicyKit1"
#define POLKIT_PATH "/org/freedesktop/PolicyKit1/Authority"
#define POLKIT_AUTHORITY "org.freedesktop.PolicyKit1.Authority"
#define POLKIT_FLAG_INTERACTIVE 1U
/* How long polkit may take to go through its rules, and somebody to type a password. */
#define RULES_TIMEOUT_USEC (25 * USEC_PER_SEC)
#define PERSON_TIMEOUT_USEC (5 * 60 * USEC_PER_SEC)
#define CANCELLED_TEXT "The service is being stopped; try again when it is back."

struct Authorisation {
        ManagerBus *mb;          /* borrowed */
        Authorisation *next;     /* in mb->authorisations */
        sd_bus_message *message; /* owned: the call */
        Action action;
        char *name, *hook;
        uid_t uid;               /* of the caller, once it is known */
        bool at_polkit;
        char cancellation[32];   /* polkit's id of the question */
        sd_bus_slot *slot;       /* of what is asked */
        AuthorisationHandler handler;
        void *userdata;

        bool is_answered;
        int verdict;             /* AUTHORISE_GRANTED, AUTHORISE_ROOT, or of error */
        sd_bus_error error;
        sd_event_source *forget; /* the handler may never ask for the answer */
};

static const struct {
        const char *id, *what;
} actions[_ACTION_MAX] = {
        [ACTION_CREATE_DEVICE] = { "org.ublk.create-device", "make devices" },
        [ACTION_MANAGE_DEVICE] = { "org.ublk.manage-device", "change or delete devices" },
        [ACTION_RUN_ANY_HOOK] = { "org.ublk.run-any-hook",
                                  "give a device a hook by its path, the path of a file, an address, or a secret" },
};

Authorisation *authorisation_free(Authorisation *a) {
        if (!a)
                return NULL;
        for (Authorisation **p = &a->mb->authorisations; *p; p = &(*p)->next)
                if (*p == a) {
                        *p = a->next;
                        break;
                }
        if (!a->mb->authorisations)
                a->mb->leavers = sd_bus_slot_unref(a->mb->leavers);
        sd_bus_slot_unref(a->slot);
        sd_event_source_disable_unref(a->forget);
        sd_bus_message_unref(a->message);
        sd_bus_error_free(&a->error);
        free(a->name);
        free(a->hook);
        free(a);
        return NULL;
}

static int on_forget(sd_event_source *s, void *userdata) {
        (void) s;
        authorisation_free(userdata);
        return 0;
}

/* To the end of what has come in. Once that has been worked on, its handler has had its chance to ask. */
static int hand_in_again(Authorisation *a) {
        int r;

        r = sd_bus_message_rewind(a->message, true);
        if (r >= 0)
                r = sd_event_add_defer(a->mb->event, &a->forget, on_forget, a);
        if (r >= 0)
                r = sd_event_source_set_priority(a->forget, SD_EVENT_PRIORITY_IDLE);
        return r < 0 ? r : sd_bus_enqueue_for_read(a->mb->bus, a->message);
}

/* a is gone after it, or waits for its handler. */
static void answer(Authorisation *a, int verdict) {
        int r;

        a->slot = sd_bus_slot_unref(a->slot);
        a->at_polkit = false;
        a->is_answered = true;
        a->verdict = verdict;
        if (verdict < 0)
                log_notice("%s (%s): %s", sd_bus_message_get_member(a->message), a->name, a->error.message);
        if (a->handler) {
                a->handler(a->userdata, verdict < 0 ? &a->error : NULL);
                return;
        }
        r = hand_in_again(a);
        if (r < 0) {
                (void) sd_bus_reply_method_errno(a->message, r, NULL);
                authorisation_free(a);
        }
}

static void _printf_(3, 4) refuse(Authorisation *a, const char *name, const char *format, ...) {
        va_list ap;
        int r;

        va_start(ap, format);
        r = bus_error_setfv(&a->error, name, format, ap);
        va_end(ap);
        answer(a, r < 0 ? r : -EACCES);
}

/* No owner, and nothing that would start it; or what would does not. */
static bool means_absent(const sd_bus_error *e) {
        return sd_bus_error_has_name(e, SD_BUS_ERROR_SERVICE_UNKNOWN) || sd_bus_error_has_name(e, SD_BUS_ERROR_NAME_HAS_NO_OWNER) ||
                strncmp(e->name, "org.freedesktop.systemd1.", strlen("org.freedesktop.systemd1.")) == 0 ||
                strncmp(e->name, "org.freedesktop.DBus.Error.Spawn.", strlen("org.freedesktop.DBus.Error.Spawn.")) == 0;
}

static void cancel_at_polkit(Authorisation *a) {
        sd_bus_message *m = NULL;
        int r;

        if (!a->at_polkit)
                return;
        r = sd_bus_message_new_method_call(a->mb->bus, &m, POLKIT_NAME, POLKIT_PATH, POLKIT_AUTHORITY, "CancelCheckAuthorization");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", a->cancellation);
        if (r >= 0)
                r = sd_bus_message_set_expect_reply(m, false);
        if (r >= 0)
                r = sd_bus_send(a->mb->bus, m, NULL);
        sd_bus_message_unref(m);
        if (r < 0)
                log_debug("polkit can't be told that nobody waits any more, ignoring: %s", strerror(-r));
}

static void refuse_for_error(Authorisation *a, const sd_bus_error *e) {
        const char *what = actions[a->action].what;

        if (means_absent(e))
                refuse(a, SD_BUS_ERROR_ACCESS_DENIED,
                       "Only root may %s, as there is no polkit to be asked whether user id %u may (%s). Call as root, or install polkitd.",
                       what, a->uid, e->message);
        else if (sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY) || sd_bus_error_has_name(e, SD_BUS_ERROR_TIMEOUT)) {
                cancel_at_polkit(a);
                refuse(a, SD_BUS_ERROR_ACCESS_DENIED, "polkit has not answered in time whether user id %u may %s.", a->uid, what);
        } else
                refuse(a, SD_BUS_ERROR_ACCESS_DENIED, "polkit can't tell whether user id %u may %s: %s", a->uid, what, e->message);
}

static int on_polkit(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);
        int r, is_authorised = false, is_challenge = false;
        Authorisation *a = userdata;

        (void) error;
        r = e ? 0 : sd_bus_message_enter_container(m, 'r', "bba{ss}");
        if (!e && r >= 0)
                r = sd_bus_message_read(m, "bb", &is_authorised, &is_challenge);
        if (e)
                refuse_for_error(a, e);
        else if (r < 0)
                refuse(a, SD_BUS_ERROR_ACCESS_DENIED, "polkit's answer can't be read: %s.", strerror(-r));
        else if (is_authorised)
                answer(a, AUTHORISE_GRANTED);
        else if (is_challenge)
                refuse(a, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED,
                       "User id %u may %s only with a password, and there is nobody to be asked for it. It takes a program that allows it, "
                       "and an agent of polkit's in the session.", a->uid, actions[a->action].what);
        else
                refuse(a, SD_BUS_ERROR_ACCESS_DENIED, "polkit does not let user id %u %s. It takes a rule for the action %s, or root.",
                       a->uid, actions[a->action].what, actions[a->action].id);
        return 0;
}

static int append_details(sd_bus_message *m, const Authorisation *a) {
        const char *member = sd_bus_message_get_member(a->message);
        size_t n = strlen(member), tail = strlen("Device");
        _cleanup_free_ char *verb = NULL;

        /* RestartDevice of the manager and Restart of the device are one thing. */
        verb = strndup(member, n > tail && streq(member + n - tail, "Device") ? n - tail : n);
        if (!verb)
                return -ENOMEM;
        return sd_bus_message_append(m, "a{ss}", 3, "name", a->name, "hook", a->hook, "verb", verb);
}

static int ask_polkit(Authorisation *a) {
        bool may_ask = sd_bus_message_get_allow_interactive_authorization(a->message) > 0;
        static unsigned last;
        sd_bus_message *m = NULL;
        int r;

        (void) snprintf(a->cancellation, sizeof(a->cancellation), "ublk-%u", ++last);
        r = sd_bus_message_new_method_call(a->mb->bus, &m, POLKIT_NAME, POLKIT_PATH, POLKIT_AUTHORITY, "CheckAuthorization");
        if (r >= 0)
                r = sd_bus_message_append(m, "(sa{sv})s", "system-bus-name", 1, "name", "s", sd_bus_message_get_sender(a->message),
                                          actions[a->action].id);
        if (r >= 0)
                r = append_details(m, a);
        if (r >= 0)
                r = sd_bus_message_append(m, "us", may_ask ? POLKIT_FLAG_INTERACTIVE : 0U, a->cancellation);
        if (r >= 0)
                r = sd_bus_call_async(a->mb->bus, &a->slot, m, on_polkit, a, may_ask ? PERSON_TIMEOUT_USEC : RULES_TIMEOUT_USEC);
        sd_bus_message_unref(m);
        a->at_polkit = r >= 0;
        return r < 0 ? r : 0;
}

static size_t count_at_polkit(const ManagerBus *mb, uid_t uid) {
        size_t n = 0;

        for (const Authorisation *a = mb->authorisations; a; a = a->next)
                n += a->at_polkit && a->uid == uid;
        return n;
}

static int on_uid(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);
        Authorisation *a = userdata;
        uint32_t uid;
        int r;

        (void) error;
        a->slot = sd_bus_slot_unref(a->slot);
        r = e ? -sd_bus_error_get_errno(e) : sd_bus_message_read(m, "u", &uid);
        if (r < 0) {
                refuse(a, SD_BUS_ERROR_ACCESS_DENIED, "Who calls can't be found out: %s.", e ? e->message : strerror(-r));
                return 0;
        }
        a->uid = uid;
        if (uid == a->mb->trusted_uid)
                answer(a, AUTHORISE_ROOT);
        else if (a->action == ACTION_LOOK)
                answer(a, AUTHORISE_GRANTED);
        else if (count_at_polkit(a->mb, uid) >= AUTHORISE_MAX_PER_USER)
                refuse(a, SD_BUS_ERROR_LIMITS_EXCEEDED, "%d calls of user id %u wait for polkit, which is the most; try again later.",
                       AUTHORISE_MAX_PER_USER, uid);
        else {
                r = ask_polkit(a);
                if (r < 0)
                        refuse(a, SD_BUS_ERROR_ACCESS_DENIED, "polkit can't be asked: %s.", strerror(-r));
        }
        return 0;
}

/* An operation goes on without its caller, but not without an answer. */
static void caller_left(Authorisation *a) {
        cancel_at_polkit(a);
        if (a->handler)
                refuse(a, SD_BUS_ERROR_ACCESS_DENIED, "The caller has left before polkit had answered.");
        else
                authorisation_free(a);
}

static Authorisation *find_waiting(const ManagerBus *mb, const char *sender) {
        for (Authorisation *a = mb->authorisations; a; a = a->next)
                if (!a->is_answered && (!sender || streq_ptr(sd_bus_message_get_sender(a->message), sender)))
                        return a;
        return NULL;
}

static int on_left(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        ManagerBus *mb = userdata;
        const char *name;
        Authorisation *a;

        (void) error;
        if (sd_bus_message_read(m, "s", &name) < 0)
                return 0;
        while ((a = find_waiting(mb, name)))
                caller_left(a);
        return 0;
}

/* One for all, as the bus has a limit of them. Without it an answer is waited for that nobody wants, no more. */
static int on_left_installed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        (void) userdata, (void) error;
        if (sd_bus_message_is_method_error(m, NULL))
                log_warning("Callers that leave are not noticed, ignoring: %s", sd_bus_message_get_error(m)->message);
        return 0;
}

static int watch_leavers(ManagerBus *mb) {
        if (mb->leavers)
                return 0;
        return sd_bus_add_match_async(mb->bus, &mb->leavers,
                                      "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"
                                      "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg2=''",
                                      on_left, on_left_installed, mb);
}

int authorisation_new(ManagerBus *mb, sd_bus_message *m, Action action, const char *name, const char *hook,
                      AuthorisationHandler handler, void *userdata, Authorisation **ret) {
        Authorisation *a = malloc(sizeof(Authorisation));
        int r;

        if (!a)
                return -ENOMEM;
        *a = (Authorisation) {
                .mb = mb, .next = mb->authorisations, .message = sd_bus_message_ref(m), .action = action,
                .uid = (uid_t) -1, .handler = handler, .userdata = userdata,
        };
        mb->authorisations = a;
        r = xstrdup(name, &a->name);
        if (r >= 0)
                r = xstrdup(hook ? hook : "", &a->hook);
        if (r >= 0 && action != ACTION_LOOK) /* that is over before anybody could leave */
                r = watch_leavers(mb);
        if (r >= 0)
                r = sd_bus_call_method_async(mb->bus, &a->slot, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                             "GetConnectionUnixUser", on_uid, a, "s", sd_bus_message_get_sender(m));
        if (r < 0) {
                authorisation_free(a);
                return r;
        }
        if (ret)
                *ret = a;
        return 0;
}

/* What was answered is what is asked for now: between the two another device may have got the id. */
static int take_answer(Authorisation *a, Action action, const char *name, const char *hook, uid_t *ret_uid, sd_bus_error *e) {
        int r;

        if (a->verdict < 0)
                r = sd_bus_error_copy(e, &a->error) < 0 ? a->verdict : -EACCES;
        else if (a->action != action || !streq(a->name, name) || !streq(a->hook, hook ? hook : ""))
                r = bus_error_setf(e, SD_BUS_ERROR_ACCESS_DENIED,
                                   "What the call is about has become another while polkit was asked; call again.");
        else
                r = a->verdict;
        if (r >= 0 && ret_uid)
                *ret_uid = a->uid;
        authorisation_free(a);
        return r;
}

int authorise(ManagerBus *mb, sd_bus_message *m, Action action, const char *name, const char *hook, uid_t *ret_uid, sd_bus_error *e) {
        int r;

        for (Authorisation *a = mb->authorisations; a; a = a->next)
                if (a->message == m && a->is_answered && !a->handler)
                        return take_answer(a, action, name, hook, ret_uid, e);
        if (mb->draining && action != ACTION_LOOK)
                return bus_error_setf(e, BUS_ERROR_CANCELLED, CANCELLED_TEXT);
        r = authorisation_new(mb, m, action, name, hook, NULL, NULL, NULL);
        return r < 0 ? bus_error_setf(e, SD_BUS_ERROR_ACCESS_DENIED, "Who calls can't be asked for: %s.", strerror(-r)) :
                       AUTHORISE_LATER;
}

int authorise_root(ManagerBus *mb, sd_bus_message *m, sd_bus_error *e) {
        sd_bus_creds *creds = NULL;
        uid_t uid;
        int r;

        r = sd_bus_query_sender_creds(m, SD_BUS_CREDS_EUID, &creds);
        if (r >= 0)
                r = sd_bus_creds_get_euid(creds, &uid);
        sd_bus_creds_unref(creds);
        if (r < 0)
                return bus_error_setf(e, SD_BUS_ERROR_ACCESS_DENIED, "Who calls can't be found out: %s.", strerror(-r));
        return uid == mb->trusted_uid ? 0 :
                bus_error_setf(e, SD_BUS_ERROR_ACCESS_DENIED, "Only root may change this, not user id %u.", uid);
}

void authorise_cancel_all(ManagerBus *mb) {
        Authorisation *a, *next;

        for (a = mb->authorisations; a; a = next) {
                next = a->next;
                if (a->is_answered || a->handler)
                        continue;
                cancel_at_polkit(a);
                (void) sd_bus_reply_method_errorf(a->message, BUS_ERROR_CANCELLED, CANCELLED_TEXT);
                authorisation_free(a);
        }
}
