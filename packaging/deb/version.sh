#!/usr/bin/env bash
# Prints the Debian version of a tree, from its tags: v1.2.3 is 1.2.3, four commits later it is
# 1.2.3+4.gabc1234. A tree without tags is older than any release.
set -euo pipefail
described=$(git describe --tags --match 'v[0-9]*' --long 2>/dev/null || true)
if [[ $described =~ ^v(.*)-([0-9]+)-(g[0-9a-f]+)$ ]]; then
	release=${BASH_REMATCH[1]//-/\~} # v1.0.0-rc.1 comes before v1.0.0
	if ((BASH_REMATCH[2] == 0)); then
		echo "$release"
	else
		echo "$release+${BASH_REMATCH[2]}.${BASH_REMATCH[3]}"
	fi
else
	TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format='0~git%cd.%h' 2>/dev/null || echo '0~dev'
fi
