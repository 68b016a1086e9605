#!/usr/bin/env perl
open(my $log, '>>', 'ends.log') or die $!;
print $log time, " the session ended\n";
