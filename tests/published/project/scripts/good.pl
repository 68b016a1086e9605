print 1;
