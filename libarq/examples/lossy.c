/* SPDX-License-Identifier: EPL-2.0 OR Apache-2.0 */

/*
 * A hundred messages of 10 KB, one each 20 ms, over a wire of 10 ms that loses a tenth of all datagrams. Both ends and the
 * wire are in this program, and the time is a variable: a run is over at once, and repeats itself.
 *
 *     cc lossy.c $(pkg-config --cflags --libs arq) -o lossy && ./lossy [SEED]
 */

#include <arq.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 100, MESSAGE_BYTES = 10000, IN_FLIGHT = 4096 };
static const uint64_t EACH_US = 20000, DELAY_US = 10000, LIMIT_US = 60000000;
static const uint8_t LANE = ARQ_LANE(5, 0);

struct datagram {
    uint64_t at;
    int to;
    size_t length;
    uint8_t bytes[ARQ_USUAL_DATAGRAM];
};

struct world {
    uint64_t now;
    arq_endpoint *ends[2];             /* the server and the client */
    arq_address addresses[2];
    uint64_t connection;               /* the client's */
    bool is_open, has_ended;
    struct datagram wire[IN_FLIGHT];
    int under_way, passed, lost;
    int sent, received;
    uint64_t sent_at[MESSAGES], worst_us;
    uint32_t random;
};

/* Ends the program where a call has not done what it should. */
static void must(arq_status status, const char *call) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", call, arq_status_text(status));
        exit(1);
    }
}

static uint32_t dice(struct world *world) {
    world->random = world->random * 1664525u + 1013904223u;
    return world->random >> 16;
}

static void read_messages(struct world *world, const arq_event *event) {
    static uint8_t message[ARQ_MAX_MESSAGE];
    size_t length;
    for (;;) {
        arq_status status = arq_recv(world->ends[0], world->now, event->connection, event->lane, message,
                                     sizeof message, &length);
        must(status, "arq_recv");
        if (status == ARQ_NOTHING) return;
        if (length != MESSAGE_BYTES || message[0] != world->received) {
            fprintf(stderr, "message %d is not what was sent\n", world->received);
            exit(1);
        }
        uint64_t took = world->now - world->sent_at[world->received++];
        if (took > world->worst_us) world->worst_us = took;
    }
}

static void on_event(struct world *world, int end, const arq_event *event) {
    if (event->kind == ARQ_READABLE && end == 0) read_messages(world, event);
    if (event->kind == ARQ_CONNECTED && end == 1) world->is_open = true;
    if (event->kind == ARQ_ENDED) {
        char reason[64];
        must(arq_close_reason(world->ends[end], event->connection, reason, sizeof reason), "arq_close_reason");
        printf("%s: %s\n", end == 1 ? "client" : "server", reason);
        must(arq_release(world->ends[end], world->now, event->connection), "arq_release");
        world->has_ended |= end == 0;
    }
}

static void send_next(struct world *world) {
    static uint8_t message[MESSAGE_BYTES];
    uint64_t due = world->sent == 0 ? world->now : world->sent_at[world->sent - 1] + EACH_US;
    if (!world->is_open || world->sent == MESSAGES || world->now < due) return;
    memset(message, world->sent, sizeof message);
    world->sent_at[world->sent++] = world->now;
    must(arq_send(world->ends[1], world->now, world->connection, LANE, message, sizeof message), "arq_send");
    if (world->sent == MESSAGES) must(arq_finish(world->ends[1], world->now, world->connection), "arq_finish");
}

/* What a driver does after anything that has changed an end. */
static void drive(struct world *world, int end) {
    arq_event event;
    while (arq_poll_event(world->ends[end], &event) == ARQ_OK) on_event(world, end, &event);
    for (;;) {
        struct datagram *next = &world->wire[world->under_way];
        arq_address to;
        arq_status status = arq_poll_transmit(world->ends[end], world->now, next->bytes, sizeof next->bytes,
                                              &next->length, &to);
        must(status, "arq_poll_transmit");
        if (status == ARQ_NOTHING) return;
        world->passed++;
        if (dice(world) % 10 == 0 || world->under_way + 1 == IN_FLIGHT) {
            world->lost++;
            continue;
        }
        next->at = world->now + DELAY_US;
        next->to = to.port == world->addresses[0].port ? 0 : 1;
        world->under_way++;
    }
}

/* When something happens next. */
static uint64_t next_time(const struct world *world) {
    uint64_t next = world->now + 1000;
    for (int end = 0; end < 2; end++) {
        uint64_t due;
        must(arq_poll_timeout(world->ends[end], &due), "arq_poll_timeout");
        if (due < next) next = due;
    }
    if (world->under_way > 0 && world->wire[0].at < next) next = world->wire[0].at;
    return next > world->now ? next : world->now + 1;
}

static void deliver(struct world *world) {
    int arrived = 0;
    while (arrived < world->under_way && world->wire[arrived].at <= world->now) {
        struct datagram *datagram = &world->wire[arrived++];
        must(arq_handle_datagram(world->ends[datagram->to], world->now, &world->addresses[!datagram->to],
                                 datagram->bytes, datagram->length),
             "arq_handle_datagram");
    }
    world->under_way -= arrived;
    memmove(world->wire, world->wire + arrived, (size_t)world->under_way * sizeof *world->wire);
}

int main(int argc, char **argv) {
    static struct world world;
    uint32_t seed = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 7;
    /* Seeds come from getrandom(2) where strangers can send. */
    uint8_t seeds[2][ARQ_SEED_BYTES] = {{1}, {2}};
    arq_config config = {.mtu = ARQ_USUAL_DATAGRAM, .linger_ms = 10000};
    world.random = seed;
    world.addresses[0] = (arq_address){.ip = {10, 0, 0, 1}, .port = 7447, .family = 4};
    world.addresses[1] = (arq_address){.ip = {10, 0, 0, 2}, .port = 40000, .family = 4};
    must(arq_endpoint_new(&config, seeds[0], world.now, &world.ends[0]), "arq_endpoint_new");
    must(arq_endpoint_new(NULL, seeds[1], world.now, &world.ends[1]), "arq_endpoint_new");
    must(arq_connect(world.ends[1], world.now, &world.addresses[0], &config, &world.connection), "arq_connect");
    while (!world.has_ended && world.now < LIMIT_US) {
        send_next(&world);
        for (int end = 0; end < 2; end++) drive(&world, end);
        world.now = next_time(&world);
        deliver(&world);
        for (int end = 0; end < 2; end++) must(arq_handle_timeout(world.ends[end], world.now), "arq_handle_timeout");
    }
    printf("seed %" PRIu32 ": %d of %d messages, %d datagrams, %d lost, worst %.1f ms, %.2f s\n", seed, world.received,
           MESSAGES, world.passed, world.lost, (double)world.worst_us / 1e3, (double)world.now / 1e6);
    for (int end = 0; end < 2; end++) arq_endpoint_free(world.ends[end]);
    return world.received == MESSAGES ? 0 : 1;
}
