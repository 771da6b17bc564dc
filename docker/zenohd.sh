#!/bin/sh
# SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
# Which configuration does the router of the image take?
#
# The arguments are zenohd's own. Without a configuration among them it is /etc/zenohd/zenohd.json5, which listens on
# arq/ and tcp/; zenohd alone would listen on tcp/ only. Other arguments, such as --listen, override what is in it.
for argument; do
    case $argument in
        -c* | --config | --config=* | --cfg=:* | :*) exec zenohd "$@" ;;
    esac
done
exec zenohd --config /etc/zenohd/zenohd.json5 "$@"
