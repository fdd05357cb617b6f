"""Models of scikit-learn, XGBoost and LightGBM, trained on random data."""

import numpy as np
import onnx
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.base import is_classifier

ROWS, FEATURES = 200, 8
# ai.onnx of models is 17 but where a converter requires a newer one.
OPSETS = {"KNNImputer": 18}
TEXTS = ["the cat sat on the mat", "a dog barked at the cat", "birds sing in the morning", "the morning was cold", "a mat for a dog"]


def accept_arrays():
    """Lets converters give arrays and truth values as attributes, which onnx no longer takes."""
    make = onnx.helper.make_attribute

    def make_attribute(key, value, *rest, **named):
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, list) and any(isinstance(item, (bool, np.bool_)) for item in value):
            value = [int(item) for item in value]
        return make(key, value, *rest, **named)

    onnx.helper.make_attribute = make_attribute


accept_arrays()


def random_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    score = x[:, 0] + 0.5 * x[:, 1] ** 2 - x[:, 2] * x[:, 3]
    return x, score.astype(np.float32), np.digitize(score, np.quantile(score, [1 / 3, 2 / 3])).astype(np.int64)


def estimator(name):
    """The class of this name."""
    from sklearn.utils import all_estimators

    return dict(all_estimators())[name]


ARGUMENTS = {
    "AdaBoostClassifier": {"n_estimators": 10},
    "AdaBoostRegressor": {"n_estimators": 10},
    "BaggingClassifier": {"n_estimators": 5},
    "CalibratedClassifierCV": {"cv": 2},
    "ExtraTreesClassifier": {"n_estimators": 20},
    "ExtraTreesRegressor": {"n_estimators": 20},
    "GaussianMixture": {"n_components": 3},
    "GradientBoostingClassifier": {"n_estimators": 20},
    "GradientBoostingRegressor": {"n_estimators": 20},
    "HistGradientBoostingClassifier": {"max_iter": 20},
    "HistGradientBoostingRegressor": {"max_iter": 20},
    "IsolationForest": {"n_estimators": 20},
    "KBinsDiscretizer": {"n_bins": 4, "encode": "ordinal"},
    "KMeans": {"n_clusters": 3, "n_init": 2},
    "MLPClassifier": {"hidden_layer_sizes": (16,), "max_iter": 30},
    "MLPRegressor": {"hidden_layer_sizes": (16,), "max_iter": 30},
    "MiniBatchKMeans": {"n_clusters": 3, "n_init": 2},
    "NuSVC": {"probability": True, "nu": 0.3},
    "PCA": {"n_components": 4},
    "QuantileTransformer": {"n_quantiles": 20},
    "RandomForestClassifier": {"n_estimators": 20},
    "RandomForestRegressor": {"n_estimators": 20},
    "SVC": {"probability": True},
    "TruncatedSVD": {"n_components": 4},
}


def composed(name):
    """The estimators made of others, and None for the rest."""
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import StackingClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    parts = [("tree", DecisionTreeClassifier(max_depth=4)), ("linear", LogisticRegression())]
    if name == "VotingClassifier":
        return VotingClassifier(parts, voting="soft", flatten_transform=False)
    if name == "StackingClassifier":
        return StackingClassifier(parts, cv=2)
    if name == "Pipeline":
        return Pipeline([("scale", StandardScaler()), ("classify", LogisticRegression())])
    if name == "ColumnTransformer":
        return ColumnTransformer([("one", StandardScaler(), [0, 1, 2]), ("other", MinMaxScaler(), [3, 4, 5, 6, 7])])
    return None


def scikit_learn_model(name, path):
    x, y, labels = random_rows()
    chosen = composed(name) or estimator(name)(**ARGUMENTS.get(name, {}))
    rows = x[:5]
    kind = FloatTensorType([None, FEATURES])
    options = {}
    if name in ("OneHotEncoder", "OrdinalEncoder"):
        words = np.array(["red", "green", "blue"])[labels][:, None]
        x, rows, kind = words, words[:5], StringTensorType([None, 1])
    elif name == "LabelEncoder":
        words = np.array(["red", "green", "blue"])[labels]
        x, rows, kind = words, words[:5], StringTensorType([None])
    elif name == "DictVectorizer":
        maps = [{"a": float(row[0]), "b": float(row[1])} for row in x]
        return dictionaries(chosen.fit(maps), path)
    elif name in ("TfidfVectorizer", "CountVectorizer"):
        x, rows, kind = TEXTS, np.array(TEXTS)[:, None], StringTensorType([None, 1])
        # The default, en_US, is not installed everywhere.
        options = {id(chosen): {"locale": "C"}}
    elif name == "MultinomialNB":
        x = np.abs(x)
        rows = x[:5]
    elif name in ("SimpleImputer", "KNNImputer"):
        x = x.copy()
        x[::7, 2] = np.nan
        rows = x[:8]
    elif name == "GaussianProcessRegressor":
        x, y = x[:40], y[:40]
    # Estimators without supervision ignore the target, but for those of one argument.
    takes_target = name not in ("LabelEncoder", "TfidfVectorizer", "CountVectorizer")
    target = labels if is_classifier(chosen) else y
    chosen.fit(*((x, target) if takes_target else (x,)))
    model = convert_sklearn(chosen, initial_types=[("x", kind)], options=options, target_opset={"": OPSETS.get(name, 17), "ai.onnx.ml": 3})
    onnx.save(model, str(path))
    return {"x": rows}


def dictionaries(fitted, path):
    from skl2onnx.common.data_types import DictionaryType

    kind = DictionaryType(StringTensorType([1]), FloatTensorType([1]))
    onnx.save(convert_sklearn(fitted, initial_types=[("x", kind)], target_opset={"": 17, "ai.onnx.ml": 3}), str(path))
    return {"x": {"a": 2.0, "b": 3.0}}


def boosted_model(name, path):
    """A gradient-boosted model by its name in XGBoost or LightGBM."""
    from onnxmltools.convert import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as Floats

    x, y, labels = random_rows()
    is_xgboost = name.startswith("XGB")
    if is_xgboost:
        import xgboost as library
    else:
        import lightgbm as library
    chosen = getattr(library, name)(n_estimators=20, max_depth=4)
    target = labels if "Classifier" in name else y
    if "Ranker" in name:
        chosen.fit(x, labels, group=[50] * (ROWS // 50))
    else:
        chosen.fit(x, target)
    convert = convert_xgboost if is_xgboost else convert_lightgbm
    if name == "XGBRanker":
        chosen = chosen.get_booster()
    model = convert(chosen, initial_types=[("x", Floats([None, FEATURES]))], target_opset=15)
    onnx.save(model, str(path))
    return {"x": x[:5]}
