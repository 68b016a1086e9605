#!/usr/bin/env perl
# Refuses commits without a conventional message.
use strict; use warnings;
my $event = do { local $/; <STDIN> };
if ($event =~ /git commit[^"]*-m\s+\\?['"]?([^'"\\]+)/ && $1 !~ /^(feat|fix|docs|chore)(\([a-z]+\))?: /) {
    print STDERR "begin with feat:, fix:, docs: or chore:\n";
    exit 2;
}
