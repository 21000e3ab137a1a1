"""
For which thresholds is a model worth using?
============================================

A doctor biopsies above some risk. Compared with a biopsy for everyone and a
biopsy for no one, is the model worth using? The decision curve answers for
every threshold, in the unit of cases found.
"""

# %%
# Tumours are malignant or benign; a model sees two measurements.

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scoreprism.curves import decision_loss
from scoreprism.displays import NetBenefitDisplay

data = load_breast_cancer()
malignant = data.target == 0
model = make_pipeline(StandardScaler(), LogisticRegression())
risk = cross_val_predict(
    model, data.data[:, 1:5:3], malignant, cv=5, method="predict_proba"
)[:, 1]
display = NetBenefitDisplay.from_predictions(
    malignant, risk, name="two measurements"
)

# %%
# How much can miscalibration cost at the threshold where it hurts most? The
# answer has an upper bound that holds at all thresholds.

lost = decision_loss(malignant, risk, random_state=0)
figure = lost.plot()
lost

# %%
# The curve of the model lies above both strategies over a wide range of
# thresholds, and the bound says how little can be lost to miscalibration at any
# of them.
