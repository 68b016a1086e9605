#!/usr/bin/awk -f
# Refuses marks of a merge.
/<<<<<<< |>>>>>>> / { print "marks of a merge are left" > "/dev/stderr"; found = 1 }
END { exit found ? 2 : 0 }
