my $a = ;
