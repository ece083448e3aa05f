#!/bin/sh
# Writes the users of this server from the environment and starts it. Each role reaches what it needs:
# builder and device worker take from their own queue and may only add to the site's.
set -eu

need() {
  eval "value=\${$1:-}"
  if [ -z "$value" ]; then
    echo "$1 is not set; see docker/env.example" >&2
    exit 1
  fi
}
need REDIS_SITE_PASSWORD
need REDIS_BUILD_PASSWORD
need REDIS_DEVICE_PASSWORD

# Queue names of Celery, its book-keeping, and no administration for anybody.
common="+@connection +@list +@set +@sortedset +@hash +@transaction +@pubsub +@scripting +@read +@write +info -@admin -@dangerous +info"
keeping="~_kombu.* ~unacked*"
umask 077
cat >/run/redis/users.acl <<EOT
user default off
user site on >$REDIS_SITE_PASSWORD ~* &* $common
user build on >$REDIS_BUILD_PASSWORD ~build* %W~web* $keeping resetchannels $common
user device on >$REDIS_DEVICE_PASSWORD ~device.* %W~web* $keeping resetchannels $common
EOT

exec redis-server --aclfile /run/redis/users.acl --save "" --appendonly no --dir /run/redis
