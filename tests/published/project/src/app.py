import sys
import os

print(os.getcwd(), sys.argv)
