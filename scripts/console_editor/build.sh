#!/bin/sh
# Make src/groundbox/server/console/static/vendor/codemirror.js anew, and the licences of what is in it.
# Needs npm and a network; nothing that is installed does. The lock names no registry: npm asks the one it is set to.
set -eu
cd "$(dirname "$0")"
vendor=../../src/groundbox/server/console/static/vendor
npm ci --ignore-scripts --no-audit --no-fund
node_modules/.bin/esbuild editor.js --bundle --minify --format=esm --target=es2022 --legal-comments=none \
  --outfile="$vendor/codemirror.js"
for package in @codemirror/autocomplete @codemirror/commands @codemirror/lang-javascript @codemirror/lang-python \
  @codemirror/lang-sql @codemirror/language @codemirror/legacy-modes @codemirror/state @codemirror/view \
  @lezer/common @lezer/highlight @lezer/javascript @lezer/lr @lezer/python @marijn/find-cluster-break crelt style-mod \
  w3c-keyname; do
  printf '== %s %s\n\n' "$package" "$(node -p "require('./node_modules/$package/package.json').version")"
  cat "node_modules/$package/LICENSE"
  printf '\n'
done >"$vendor/codemirror.LICENSE"
