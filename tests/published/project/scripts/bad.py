def a(:
