#!/bin/sh
# Has not said anything when its time is over.
exec sleep 3601
