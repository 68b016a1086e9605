# A user's daemon with a profile, consents and records, as docs/backup.md requires.
set -e
mkdir -p ~/.config/hookjail/profiles
printf 'extends = "strict"\n' >~/.config/hookjail/profiles/quiet.toml
printf '[audit]\nkeep_files = 3\n' >~/.config/hookjail/hookjail.toml
hookjail allow --profile strict -- /bin/true
hookjail serve >~/first.log 2>&1 &
until hookjail status >/dev/null 2>&1; do sleep 1; done
hookjail run --profile strict -- /bin/true
