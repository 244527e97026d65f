"""An axis of a tuning: an option and its values, which grow at an end inside the option's range (see tuning.py)."""
import math

from common.run_options import option_rows

GROWTHS = 2
LOW, HIGH = 0, 1  # the two ends of an axis
DECAYS = ("beta1", "beta2", "sgd-momentum", "muon-momentum")


def value_of(text):
    """The number that a text is, or the text. A number is itself."""
    for kind in (int, float) if isinstance(text, str) else ():
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class Axis:
    """An option and its values, which may be given as texts: numbers, in ascending order, or words.

    grown    how often each end grew
    limits   the least and the greatest value of the option
    closed   whether nothing can be beyond an end, such as 0. Then it does not count as one."""

    def __init__(self, name, values):
        numbers = [value_of(value) for value in values]
        self.name = name
        self.ordered = all(isinstance(value, (int, float)) and math.isfinite(value) for value in numbers)
        self.values = sorted(numbers) if self.ordered else list(values)
        row = option_rows().get(name, {})
        self.whole = all(isinstance(value, int) for value in self.values) and row.get("kind") != "real"
        self.grown = [0, 0]
        self.limits = [row.get("min", -math.inf), row.get("max", math.inf)]
        self.closed = [self.ordered and (self.values[0] <= 0 or self.values[0] <= self.limits[LOW]),  # 0 has nothing below
                       self.ordered and self.values[-1] >= self.limits[HIGH]]

    def middle(self):
        """The start of a search: the middle number, or the first word."""
        return self.values[(len(self.values) - 1) // 2 if self.ordered else 0]

    def scaled(self, value):
        """The distance from 1 of a decay rate such as beta2, whose values approach 1 by ratios; else the value. Its own inverse."""
        return 1 - value if self.name in DECAYS else value

    def rounded(self, scaled, digits):
        """The value of a scaled one."""
        if self.whole:
            return round(scaled)
        return float(f"{self.scaled(float(f'{scaled:.{digits}g}')):.12g}")

    def beyond(self, side):
        """The value that continues the grid: by the ratio of the last two values, or of every other one if there
        are three, so that 1, 3, 10 is followed by 30; by the difference if one of them is 0. If that is outside of the
        option's range: the middle between the last value and the end of the range."""
        values = list(map(self.scaled, self.values))
        last = values[::-1] if side == HIGH else values
        if 0 in last[1:3]:
            value = 2 * last[0] - last[1]
        else:
            value = last[0] * last[0] / last[1] if len(last) == 2 else last[1] * last[0] / last[2]
        value, (low, high) = self.rounded(value, 3), self.limits
        if low <= value <= high if self.whole else low < value < high:
            return value
        return self.rounded(self.scaled((self.values[-side] + self.limits[side]) / 2), 3)

    def may_grow(self, side):
        return len(self.values) > 1 and not self.closed[side] and self.grown[side] < GROWTHS

    def refine(self, value):
        """Adds a value in the middle between this one and each of its neighbours."""
        values, at, value = list(map(self.scaled, self.values)), self.values.index(value), self.scaled(value)
        ratio = min(values) > 0
        for other in values[max(0, at - 1):at] + values[at + 1:at + 2]:
            middle = self.rounded(math.sqrt(value * other) if ratio else (value + other) / 2, 2)
            if middle not in self.values:
                self.values = sorted([*self.values, middle])

    def grow(self, side, accepts=lambda name, value: True):
        """Whether the axis got a value. accepts(name, value): whether it may have it."""
        value = self.beyond(side)
        self.grown[side] += 1
        if value in self.values:  # of whole numbers: 1, 1
            self.closed[side] = True
        elif accepts(self.name, value):
            self.values.insert(len(self.values) if side == HIGH else 0, value)
            return True
        else:
            self.grown[side] = GROWTHS
        return False
