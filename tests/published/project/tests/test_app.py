import unittest


class App(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(1 + 1, 2)
