#!/usr/bin/env perl
# Gives batch files their line ends.
my $event = do { local $/; <STDIN> };
my ($file) = $event =~ /"file_path":\s*"([^"]*)"/ or exit 0;
exit 0 unless $file =~ /\.bat$/;
open(my $in, '<:raw', $file) or exit 1;
my $text = do { local $/; <$in> };
$text =~ s/\r?\n/\r\n/g;
open(my $out, '>:raw', $file) or exit 1;
print $out $text;
