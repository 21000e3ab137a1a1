"""
What is each block of features worth?
=====================================

A bank knows the account of a customer, and a credit bureau sells the history.
What would each of them add to the score? Levels are blocks of columns, each
known on top of the one before, and each gets a term of its own.
"""

# %%
# The score is a logistic regression on income alone. We make up customers, so
# that there are enough of them.

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from scoreprism import decompose

rng = np.random.default_rng(0)
names = [
    "income",
    "balance",
    "overdrafts",
    "past_defaults",
    "open_loans",
    "age",
]
X = pd.DataFrame(rng.normal(size=(8000, len(names))), columns=names)
logit = (
    -X["income"]
    - 0.7 * X["balance"]
    + X["overdrafts"] * X["income"]
    + 0.5 * X["past_defaults"]
    - 1
)
y = rng.random(len(X)) < expit(logit)
model = LogisticRegression().fit(X.loc[:3999, ["income"]], y[:4000])

test = X.loc[4000:]
score = model.predict_proba(test[["income"]])[:, 1]
levels = {
    "account": ["income", "balance", "overdrafts"],
    "history": ["past_defaults", "open_loans"],
}
found = decompose(y[4000:], score, test, levels=levels, random_state=0)
figure = found.plot()
found

# %%
# The account adds most, and the history adds less on top of it. Age, the only
# column left, adds nothing that can be shown. So the account is worth building
# into the model, and the history has a price that it should not exceed.
