#!/usr/bin/env perl
# Logs that a session ended.
open(my $log, '>>', 'ends.log') or die $!;
print $log time, " the session ended\n";
