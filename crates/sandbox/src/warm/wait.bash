# Read by bash before the script: waits for the run's variables and for the script to be in its place. Nothing of it is left then.
printf '\006'
read -r -N 16 || exit 125
read -r -N "$((16#$REPLY))" || exit 125
eval "$REPLY"
unset BASH_ENV REPLY
SECONDS=0
: "$BASH"
