/* SPDX-License-Identifier: EPL-2.0 OR Apache-2.0 */

/* Every pointer null, every argument out of range: an error, and nothing has changed. */

#include <arq.h>

#include <stdio.h>
#include <string.h>

/* src/convert.rs has the same numbers. */
_Static_assert(sizeof(arq_address) == 24 && offsetof(arq_address, family) == 22, "arq_address");
_Static_assert(sizeof(arq_config) == 48 && offsetof(arq_config, fec) == 43, "arq_config");
_Static_assert(sizeof(arq_event) == 16 && offsetof(arq_event, accepted) == 10, "arq_event");
_Static_assert(sizeof(arq_stats) == 96 && offsetof(arq_stats, path_mtu_bytes) == 92, "arq_stats");

static int failures;

static void expect_at(int line, arq_status have, arq_status want) {
    if (have != want) {
        failures++;
        printf("line %d: %d (%s), not %d\n", line, have, arq_status_text(have), want);
    }
}
#define expect(have, want) expect_at(__LINE__, have, want)

static arq_endpoint *endpoint;
static uint64_t connection;

static void null_pointers(void) {
    uint8_t seed[ARQ_SEED_BYTES] = {0}, bytes[ARQ_USUAL_DATAGRAM];
    arq_address address = {.ip = {127, 0, 0, 1}, .port = 1, .family = 4};
    arq_event event;
    arq_stats stats;
    size_t length;
    uint64_t at;
    arq_endpoint *other = endpoint;
    expect(arq_endpoint_new(NULL, NULL, 0, &other), ARQ_NULL);
    expect(other == NULL, 1);
    expect(arq_endpoint_new(NULL, seed, 0, NULL), ARQ_NULL);
    arq_endpoint_free(NULL);
    expect(arq_connect(NULL, 0, &address, NULL, &at), ARQ_NULL);
    expect(arq_connect(endpoint, 0, NULL, NULL, &at), ARQ_NULL);
    expect(arq_connect(endpoint, 0, &address, NULL, NULL), ARQ_NULL);
    expect(arq_handle_datagram(NULL, 0, &address, bytes, 1), ARQ_NULL);
    expect(arq_handle_datagram(endpoint, 0, NULL, bytes, 1), ARQ_NULL);
    expect(arq_handle_datagram(endpoint, 0, &address, NULL, 1), ARQ_NULL);
    expect(arq_handle_datagram(endpoint, 0, &address, NULL, 0), ARQ_OK);
    expect(arq_poll_transmit(NULL, 0, bytes, sizeof bytes, &length, &address), ARQ_NULL);
    expect(arq_poll_transmit(endpoint, 0, NULL, sizeof bytes, &length, &address), ARQ_NULL);
    expect(arq_poll_transmit(endpoint, 0, bytes, sizeof bytes, NULL, &address), ARQ_NULL);
    expect(arq_poll_transmit(endpoint, 0, bytes, sizeof bytes, &length, NULL), ARQ_NULL);
    expect(arq_poll_timeout(NULL, &at), ARQ_NULL);
    expect(arq_poll_timeout(endpoint, NULL), ARQ_NULL);
    expect(arq_handle_timeout(NULL, 0), ARQ_NULL);
    expect(arq_send(NULL, 0, connection, 0, bytes, 1), ARQ_NULL);
    expect(arq_send(endpoint, 0, connection, 0, NULL, 1), ARQ_NULL);
    expect(arq_recv(NULL, 0, connection, 0, bytes, 1, &length), ARQ_NULL);
    expect(arq_recv(endpoint, 0, connection, 0, bytes, 1, NULL), ARQ_NULL);
    expect(arq_poll_event(NULL, &event), ARQ_NULL);
    expect(arq_poll_event(endpoint, NULL), ARQ_NULL);
    expect(arq_finish(NULL, 0, connection), ARQ_NULL);
    expect(arq_close(NULL, 0, connection, NULL), ARQ_NULL);
    expect(arq_release(NULL, 0, connection), ARQ_NULL);
    expect(arq_close_reason(NULL, connection, (char *)bytes, 1), ARQ_NULL);
    expect(arq_get_stats(NULL, connection, &stats), ARQ_NULL);
    expect(arq_get_stats(endpoint, connection, NULL), ARQ_NULL);
}

static void bad_arguments(void) {
    uint8_t seed[ARQ_SEED_BYTES] = {0}, bytes[ARQ_USUAL_DATAGRAM] = {0};
    arq_address address = {.ip = {127, 0, 0, 1}, .port = 1, .family = 5}, to;
    arq_config config = {.mtu = 100};
    arq_endpoint *other = NULL;
    arq_stats stats;
    size_t length;
    uint64_t id;
    expect(arq_endpoint_new(&config, seed, 0, &other), ARQ_INVALID);
    config = (arq_config){.congestion = 9};
    expect(arq_endpoint_new(&config, seed, 0, &other), ARQ_INVALID);
    config = (arq_config){.fec = 101};
    expect(arq_endpoint_new(&config, seed, 0, &other), ARQ_INVALID);
    config = (arq_config){.keep_alive_ms = 9000, .idle_timeout_ms = 10000};
    expect(arq_endpoint_new(&config, seed, 0, &other), ARQ_INVALID);
    config = (arq_config){.congestion = ARQ_CONSTANT};
    expect(arq_endpoint_new(&config, seed, 0, &other), ARQ_INVALID);
    expect(arq_connect(endpoint, 0, &address, NULL, &id), ARQ_INVALID);
    expect(arq_handle_datagram(endpoint, 0, &address, bytes, 9), ARQ_INVALID);
    expect(arq_send(endpoint, 0, connection, ARQ_LANES, bytes, 1), ARQ_INVALID);
    expect(arq_recv(endpoint, 0, connection, 255, bytes, 1, &length), ARQ_INVALID);
    expect(arq_send(endpoint, 0, connection, 0, bytes, 1), ARQ_CLOSED);
    expect(arq_recv(endpoint, 0, connection, 0, bytes, 1, &length), ARQ_NOTHING);
    expect(arq_close(endpoint, 0, connection, "\xff"), ARQ_INVALID);
    expect(arq_poll_transmit(endpoint, 0, bytes, sizeof bytes - 1, &length, &to), ARQ_TOO_SMALL);
    expect(arq_get_stats(endpoint, connection + 1, &stats), ARQ_UNKNOWN_CONNECTION);
    expect(arq_finish(endpoint, 0, connection + 1), ARQ_UNKNOWN_CONNECTION);
    expect(arq_close_reason(endpoint, connection, NULL, 0), ARQ_NOTHING);
    /* What strangers send is no error; what looks sealed is answered. */
    address.family = 6;
    for (int kind = 0; kind < 256; kind++) {
        memset(bytes, kind, sizeof bytes);
        expect(arq_handle_datagram(endpoint, 0, &address, bytes, sizeof bytes), ARQ_OK);
    }
}

static void a_released_connection(void) {
    uint8_t bytes[ARQ_USUAL_DATAGRAM];
    arq_address to;
    arq_event event;
    size_t length;
    char reason[2];
    expect(arq_close(endpoint, 0, connection, "enough"), ARQ_OK);
    expect(arq_close_reason(endpoint, connection, reason, 0), ARQ_TOO_SMALL);
    expect(arq_close_reason(endpoint, connection, reason, sizeof reason), ARQ_OK);
    expect(reason[0] == 'c' && reason[1] == 0, 1);
    expect(arq_release(endpoint, 0, connection), ARQ_OK);
    expect(arq_release(endpoint, 0, connection), ARQ_UNKNOWN_CONNECTION);
    expect(arq_send(endpoint, 0, connection, 0, bytes, 1), ARQ_UNKNOWN_CONNECTION);
    expect(arq_poll_event(endpoint, &event), ARQ_NOTHING);
    for (int answers = 0; answers < 2; answers++) {
        expect(arq_poll_transmit(endpoint, 0, bytes, sizeof bytes, &length, &to), ARQ_OK);
    }
    expect(arq_poll_transmit(endpoint, 0, bytes, sizeof bytes, &length, &to), ARQ_NOTHING);
}

int main(void) {
    uint8_t seed[ARQ_SEED_BYTES] = {7};
    arq_address address = {.ip = {127, 0, 0, 1}, .port = 1, .family = 4};
    expect(arq_endpoint_new(NULL, seed, 0, &endpoint), ARQ_OK);
    expect(arq_connect(endpoint, 0, &address, NULL, &connection), ARQ_OK);
    null_pointers();
    bad_arguments();
    a_released_connection();
    arq_endpoint_free(endpoint);
    printf("%d failures\n", failures);
    return failures != 0;
}
