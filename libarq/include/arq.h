/* SPDX-License-Identifier: EPL-2.0 OR Apache-2.0 */

/*
 * ARQ for C: messages that arrive, over datagrams that get lost. A state machine without I/O: the application has the
 * socket and the clock, and passes datagrams and times in and out. See examples/lossy.c.
 *
 * Drive an endpoint like this. After anything that changes it (arq_connect, arq_handle_datagram, arq_handle_timeout,
 * arq_send, arq_recv, arq_finish, arq_close, arq_release):
 *
 *   1. arq_poll_transmit until it says ARQ_NOTHING; send each datagram at once and in this order,
 *   2. arq_poll_event until it says ARQ_NOTHING,
 *   3. arq_poll_timeout, which says when to call arq_handle_timeout.
 *
 * An endpoint is used by one thread at a time; two endpoints have nothing in common. Pointers must be valid for the call
 * and are not kept. A null pointer is an error (ARQ_NULL) unless a function says otherwise. Times are microseconds of one
 * monotonic clock of the application, which may begin anywhere.
 *
 * Nothing is encrypted: for trusted networks, or beneath a VPN. Both ends must have one arq_protocol_version().
 */

#ifndef ARQ_H
#define ARQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call returns: 0 or above, it is done; below, nothing has changed. */
typedef int32_t arq_status;
#define ARQ_OK 0
#define ARQ_NOTHING 1             /* there is none now */
#define ARQ_NULL (-1)             /* a pointer is null that must not be */
#define ARQ_INVALID (-2)          /* an argument is outside its range */
#define ARQ_UNKNOWN_CONNECTION (-3)
#define ARQ_BLOCKED (-4)          /* the lane is full: an event ARQ_WRITABLE follows */
#define ARQ_TOO_LARGE (-5)        /* the message is longer than ARQ_MAX_MESSAGE */
#define ARQ_CLOSED (-6)           /* the connection is not open, not yet or no longer */
#define ARQ_TOO_SMALL (-7)        /* the buffer is too small */

/* A text for people, in English, that lives for ever. */
const char *arq_status_text(arq_status status);

/* The version on the wire that this library speaks. */
uint32_t arq_protocol_version(void);

#define ARQ_SEED_BYTES 32
#define ARQ_MAX_MESSAGE 65535     /* bytes of the longest message */
#define ARQ_MAX_DATAGRAM 65507    /* bytes of the longest datagram, whatever the configuration */
#define ARQ_USUAL_DATAGRAM 1472   /* the same as long as no configuration has an mtu */

/* Sixteen lanes never hold each other up: priority 0 (the most urgent) to 7, reliable or best effort. */
#define ARQ_LANES 16
#define ARQ_LANE(priority, best_effort) ((uint8_t)(2 * (priority) + ((best_effort) ? 1 : 0)))

typedef struct arq_endpoint arq_endpoint;

typedef struct arq_address {
    uint8_t ip[16];               /* in network order; of IPv4 the first four */
    uint32_t scope;               /* the interface of a link-local IPv6 address, else 0 */
    uint16_t port;                /* in the order of the host */
    uint8_t family;               /* 4 or 6 */
} arq_address;

/* Set all to 0 first: that is the default of each. What is outside its range is ARQ_INVALID. */
typedef struct arq_config {
    uint64_t max_rate_bps;        /* bits of UDP payload a second, 8000 to 10^12; 0: as the network allows */
    uint64_t window_bytes;        /* for ARQ_CONSTANT, 576 to 2^30 */
    uint32_t deadline_ms;         /* best effort is repaired until then, up to an hour; 0: never */
    uint32_t keep_alive_ms;       /* 10 to a day; 0: 1000 */
    uint32_t idle_timeout_ms;     /* 50 to a day, at least twice keep_alive_ms; 0: 15000 */
    uint32_t handshake_timeout_ms; /* 50 to a day; 0: 10000 */
    uint32_t linger_ms;           /* what arq_finish may take to deliver, up to a day; 0: 500 */
    uint32_t timer_granularity_us; /* how late arq_handle_timeout is at worst, up to 100000; 0: 100 */
    uint16_t mtu;                 /* longest datagram, 576 to 65507; 0: 1472 (IPv6: 1452) */
    uint8_t congestion;           /* ARQ_BBR... */
    uint8_t fec;                  /* redundancy ahead of losses: 1 to 100 per cent, or ARQ_FEC_OFF; 0: where it pays */
} arq_config;
#define ARQ_BBR 0
#define ARQ_CUBIC 1
#define ARQ_AIMD 2
#define ARQ_CONSTANT 3
#define ARQ_FEC_OFF 255

/*
 * Makes an endpoint, which is what one UDP socket needs. accept: the configuration of the connections that it accepts;
 * null accepts none. seed: 32 secret random bytes, new each time. *out is null after an error.
 */
arq_status arq_endpoint_new(const arq_config *accept, const uint8_t seed[ARQ_SEED_BYTES], uint64_t now_us,
                            arq_endpoint **out);

/* Ends an endpoint and all its connections, without telling the peers. Null is nothing. */
void arq_endpoint_free(arq_endpoint *endpoint);

/* Begins a connection; config may be null for the defaults. An event says how it went. Its id is never used again. */
arq_status arq_connect(arq_endpoint *endpoint, uint64_t now_us, const arq_address *to, const arq_config *config,
                       uint64_t *connection);

/* Takes a datagram from the socket. Whatever it says is no error: what is for nobody is dropped. */
arq_status arq_handle_datagram(arq_endpoint *endpoint, uint64_t now_us, const arq_address *from,
                               const uint8_t *datagram, size_t length);

/*
 * The next datagram to send, and where to. capacity: ARQ_USUAL_DATAGRAM at least, and no less than any mtu that was
 * configured; else ARQ_TOO_SMALL. What the socket refuses counts as lost on the way.
 */
arq_status arq_poll_transmit(arq_endpoint *endpoint, uint64_t now_us, uint8_t *buffer, size_t capacity, size_t *length,
                             arq_address *to);

/* When to call arq_handle_timeout; ARQ_NOTHING and UINT64_MAX if never. */
arq_status arq_poll_timeout(const arq_endpoint *endpoint, uint64_t *at_us);

/* Does what is due. Earlier or more often does no harm. */
arq_status arq_handle_timeout(arq_endpoint *endpoint, uint64_t now_us);

/* Takes a copy of a message of 1 to ARQ_MAX_MESSAGE bytes into a lane. */
arq_status arq_send(arq_endpoint *endpoint, uint64_t now_us, uint64_t connection, uint8_t lane, const uint8_t *message,
                    size_t length);

/*
 * The next message of a lane; ARQ_NOTHING if there is none. With ARQ_TOO_SMALL *length says what it needs, and the message
 * is kept; so a null buffer of capacity 0 asks for the length. Messages can be read after the end of the connection, too.
 */
arq_status arq_recv(arq_endpoint *endpoint, uint64_t now_us, uint64_t connection, uint8_t lane, uint8_t *buffer,
                    size_t capacity, size_t *length);

typedef struct arq_event {
    uint64_t connection;
    uint8_t kind;                 /* ARQ_CONNECTED... */
    uint8_t lane;                 /* of ARQ_READABLE and ARQ_WRITABLE */
    uint8_t accepted;             /* 1: the peer has opened the connection */
} arq_event;
#define ARQ_CONNECTED 1           /* messages can be sent; the first that is heard of an accepted connection */
#define ARQ_READABLE 2            /* arq_recv until it says ARQ_NOTHING: this is not said for each message */
#define ARQ_WRITABLE 3            /* a lane that has refused a message has room again */
#define ARQ_ENDED 4               /* the last of a connection: read what there is, then arq_release */

/* The next event. */
arq_status arq_poll_event(arq_endpoint *endpoint, arq_event *event);

/* Delivers what was sent, for linger_ms at most, then closes. */
arq_status arq_finish(arq_endpoint *endpoint, uint64_t now_us, uint64_t connection);

/* Closes at once, and tells the peer why: up to 200 bytes of UTF-8, or null. */
arq_status arq_close(arq_endpoint *endpoint, uint64_t now_us, uint64_t connection, const char *reason);

/*
 * Gives the id back, and closes the connection if it is open. Each connection, accepted ones too, is kept until then. Go on
 * driving the endpoint, so that the peer hears of it.
 */
arq_status arq_release(arq_endpoint *endpoint, uint64_t now_us, uint64_t connection);

/* Why a connection has ended, cut to fit, with a zero at its end; ARQ_NOTHING if it has not. */
arq_status arq_close_reason(const arq_endpoint *endpoint, uint64_t connection, char *buffer, size_t capacity);

/* How a connection stands. Counts only grow. */
typedef struct arq_stats {
    uint64_t packets_sent;
    uint64_t packets_received;
    uint64_t packets_lost;        /* declared lost */
    uint64_t bytes_sent;          /* UDP payload */
    uint64_t bytes_received;
    uint64_t repair_symbols_sent;
    uint64_t messages_expired;    /* best effort, given up after deadline_ms */
    uint64_t send_buffer_bytes;   /* sent by the application, not all arrived as far as known */
    uint64_t window_bytes;        /* what congestion control allows in flight */
    uint64_t rtt_us;              /* smoothed; 0 before the first sample */
    uint64_t min_rtt_us;
    uint32_t loss_ppm;            /* share of packets lost, an upper estimate, in millionths */
    uint16_t path_mtu_bytes;
} arq_stats;

arq_status arq_get_stats(const arq_endpoint *endpoint, uint64_t connection, arq_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
