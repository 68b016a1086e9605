let = {;
