#!/bin/sh
# Prints no answer before its time is over.
exec sleep 3601
