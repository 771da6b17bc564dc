# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
"""What does zenoh's own Python package, unmodified, see of a network that speaks arq/?

One small zenoh node for `run.py`: `publish`, `subscribe`, `get`, `serve` (a queryable), `live` and `watch`
(liveliness), `route` (a router) and `links` (which links the routers tell of). It prints the same lines as the programs in `examples/`, so that the
checks need not know which of the two they read. Run it with the Python of a virtual environment that has the package
`eclipse-zenoh`.
"""

import argparse
import json
import time

import zenoh


def configuration(arguments: argparse.Namespace) -> zenoh.Config:
    mode = "router" if arguments.role == "route" else arguments.mode
    values = {
        "mode": mode,
        "scouting": {"multicast": {"enabled": False}},
        "connect": {"endpoints": arguments.connect},
        "listen": {"endpoints": arguments.listen},
    }
    if mode == "client":
        del values["listen"]
    if mode == "peer":
        values["listen"]["endpoints"] = ["tcp/127.0.0.1:0"]
    if mode != "router":
        # An endpoint that cannot work is an error at once.
        values["connect"] |= {"timeout_ms": 0, "exit_on_failure": True}
    else:
        # So that `run.py` can tell from outside that the two routers found each other.
        values["adminspace"] = {"enabled": True, "permissions": {"read": True, "write": False}}
    return zenoh.Config.from_json5(json.dumps(values))


def say(line: str) -> None:
    print(line, flush=True)


def ready() -> None:
    say("Press CTRL-C to quit...")


def publish(session: zenoh.Session, arguments: argparse.Namespace) -> None:
    publisher = session.declare_publisher(arguments.key)
    ready()
    index = 0
    while True:
        # Paced as z_pub; not a wait for anything.
        time.sleep(arguments.interval)
        publisher.put(f"[{index:4}] {arguments.payload}")
        say(f"Putting Data ('{arguments.key}': {index})...")
        index += 1


def subscribe(session: zenoh.Session, arguments: argparse.Namespace) -> None:
    def received(sample: zenoh.Sample) -> None:
        kind = "PUT" if sample.kind == zenoh.SampleKind.PUT else "DELETE"
        say(f">> [Subscriber] Received {kind} ('{sample.key_expr}': '{sample.payload.to_string()}')")

    _subscriber = session.declare_subscriber(arguments.key, received)
    ready()
    forever()


def serve(session: zenoh.Session, arguments: argparse.Namespace) -> None:
    def asked(query: zenoh.Query) -> None:
        asked_with = "" if query.payload is None else f" with payload '{query.payload.to_string()}'"
        say(f">> [Queryable ] Received Query '{query.selector}'{asked_with}")
        query.reply(arguments.key, arguments.payload)

    _queryable = session.declare_queryable(arguments.key, asked, complete=True)
    ready()
    forever()


def get(session: zenoh.Session, arguments: argparse.Namespace) -> None:
    for reply in session.get(arguments.key, payload=arguments.payload, timeout=arguments.timeout):
        if reply.ok is not None:
            say(f">> Received ('{reply.ok.key_expr}': '{reply.ok.payload.to_string()}')")
        else:
            say(f">> Received (ERROR: '{reply.err.payload.to_string()}')")


def live(session: zenoh.Session, arguments: argparse.Namespace) -> None:
    _token = session.liveliness().declare_token(arguments.key)
    ready()
    forever()


def watch(session: zenoh.Session, arguments: argparse.Namespace) -> None:
    def changed(sample: zenoh.Sample) -> None:
        say(f"{'Alive' if sample.kind == zenoh.SampleKind.PUT else 'Gone'} ('{sample.key_expr}')")

    _watch = session.liveliness().declare_subscriber(arguments.key, changed, history=True)
    ready()
    forever()


def links(session: zenoh.Session, arguments: argparse.Namespace) -> None:
    """One line per link of each router in reach: who, towards whom, over what."""
    for reply in session.get("@/*/router", timeout=arguments.timeout):
        if reply.ok is None:
            continue
        router = json.loads(reply.ok.payload.to_string())
        for peer in router["sessions"]:
            for link in peer["links"]:
                say(f"LINK {router['zid']} {peer['peer']} {link if isinstance(link, str) else json.dumps(link)}")


def route(_session: zenoh.Session, _arguments: argparse.Namespace) -> None:
    ready()
    forever()


def forever() -> None:
    while True:
        time.sleep(3600)


ROLES = {
    "publish": publish,
    "subscribe": subscribe,
    "get": get,
    "serve": serve,
    "live": live,
    "watch": watch,
    "route": route,
    "links": links,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--mode", choices=("client", "peer"), default="client", help="of the session; `route` is a router")
    parser.add_argument("-e", "--connect", action="append", default=[], metavar="ENDPOINT")
    parser.add_argument("-l", "--listen", action="append", default=[], metavar="ENDPOINT")
    parser.add_argument("-k", "--key", default="demo/example/python", help="key expression or selector")
    parser.add_argument("-p", "--payload", default="Hello from Python!")
    parser.add_argument("--interval", type=float, default=0.2, help="seconds between publications")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds that a query waits for replies")
    arguments = parser.parse_args()
    with zenoh.open(configuration(arguments)) as session:
        ROLES[arguments.role](session, arguments)


if __name__ == "__main__":
    main()
