"""Fitted models as ONNX graphs (extra ``onnx``): predictions without Python.

Importing this module registers the linear and softmax estimators with skl2onnx, so that it converts
them alone and at the end of a scikit-learn pipeline. A graph computes in the precision of its
input: float32, unless the input is declared as float64. Probabilities of the probit and logistic
links are integrals over the largest utility t,

    p_k = ∫ φ(t - s_k) Π_{j≠k} Φ(t - s_j) dt,

which the graph computes in float64 by the trapezoidal rule. The ends of the grid are quantiles with
negligible tails: of the utility of the class with the largest score at the lower end, and of the
largest of K such utilities at the upper end.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.special import erfcx, ndtri

from monro.errors import MissingExtraError
from monro.linear.classifier import LinearClassifier
from monro.linear.regressor import LinearRegressor
from monro.linear.storage import dense_coef
from monro.losses import IDENTITY, LOG
from monro.rows import Array
from monro.softmax.classifier import SoftmaxClassifier

try:
    import skl2onnx
    from onnx import TensorProto, helper, numpy_helper
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )
    from skl2onnx.common.utils_classifier import get_label_classes
except ImportError:
    raise MissingExtraError(
        "monro.onnx needs skl2onnx: install it with `pip install 'monro[onnx]'`"
    ) from None

__all__ = ["to_onnx"]

_MAX_BYTES = 2**31  # of a protobuf message
_OPSET = 18  # the first one where the axes of every reduction are an input
_TAIL_PROBABILITY = 1e-9  # omitted at either end of the grid
_INVERSE_LINKS = {IDENTITY: "Identity", LOG: "Exp"}  # operators
_SPACING = {"probit": 0.125, "logistic": 0.5}  # the peak of K = 10⁶ normal utilities is 0.2 wide


def to_onnx(model: Any, *, double: bool = False) -> Any:
    """Return a fitted model as an ONNX graph.

    Its input ``X`` has a row for each example. A classifier's outputs are ``label`` and
    ``probabilities`` (scores, where the loss is a hinge), a regressor's is ``variable``. For
    pipelines and other options, import this module and call ``skl2onnx.to_onnx``.

    Parameters
    ----------
    model : LinearClassifier, LinearRegressor or SoftmaxClassifier
    double : bool
        Whether the graph takes and computes float64.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from monro import SoftmaxClassifier
    >>> from monro.onnx import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SoftmaxClassifier(random_state=0).fit(X, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    >>> label, probabilities = session.run(None, {"X": X.astype(np.float32)})
    >>> bool(np.abs(probabilities - model.predict_proba(X)).max() < 1e-5)
    True
    """
    if not isinstance(model, (LinearClassifier, LinearRegressor, SoftmaxClassifier)):
        raise TypeError(
            f"{type(model).__name__}: only linear and softmax models become ONNX graphs; for a "
            "pipeline that ends in one call skl2onnx.to_onnx"
        )
    kind = DoubleTensorType if double else FloatTensorType
    names = {} if isinstance(model, LinearRegressor) else {type(model): {"zipmap": False}}
    width = getattr(model, "n_features_in_", None)  # if not fitted, skl2onnx raises the error
    return skl2onnx.to_onnx(model, initial_types=[("X", kind([None, width]))], options=names)


class _Nodes(ABC):
    """A graph under construction; arrays and numbers given as inputs become constants."""

    @abstractmethod
    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a constant, of the graph's precision unless `dtype` is given; return its name."""

    @abstractmethod
    def node(self, kind: str, inputs: list[str], output: str | None, **attributes: Any) -> str:
        """Add a node with named inputs; return the name of its output."""

    def add(self, kind: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add a node; inputs that are not names become constants. Return the name of its output."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        return self.node(kind, names, output, **attributes)

    def sum_of_rows(self, what: str) -> str:
        """Add the sum of each row, as a column."""
        return self.add("ReduceSum", what, self.constant([1], np.int64), keepdims=1)

    def log_sigmoid(self, z: str) -> str:
        """Add ``log σ(z) = min(z, 0) - log(1 + exp(-|z|))``."""
        tail = self.add("Exp", self.add("Neg", self.add("Abs", z)))
        rest = self.add("Log", self.add("Add", tail, 1.0))
        return self.add("Sub", self.add("Min", z, 0.0), rest)


class _Graph(_Nodes):
    """The nodes of a model, between the input and outputs of its skl2onnx operator."""

    def __init__(self, scope: Any, operator: Any, container: Any):
        self.scope = scope
        self.container = container
        self.model = operator.raw_operator
        self.inputs = [each.full_name for each in operator.inputs]
        self.outputs = [each.full_name for each in operator.outputs]
        is_double = isinstance(operator.inputs[0].type, DoubleTensorType)
        self.dtype = np.dtype(np.float64 if is_double else np.float32)
        if container.target_opset < _OPSET:
            raise ValueError(
                f"target_opset={container.target_opset}: monro's graphs need at least {_OPSET}"
            )
        self._check_size()

    def _check_size(self) -> None:
        """Raise ValueError if the weights do not fit into a file, before they are copied."""
        is_softmax = isinstance(self.model, SoftmaxClassifier)
        shape = (self.model.classes_.size,) if is_softmax else self.model._coef_shape()[:-1]
        models, width = int(np.prod(shape)), self.model.n_features_in_
        size = models * width * self.dtype.itemsize
        if size >= _MAX_BYTES:
            raise ValueError(
                f"weights of {models:,} classes × {width:,} features take {size / 1e9:.1f} GB: an "
                "ONNX file holds less than 2 GB; select features, or use monro's own model file"
            )

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = str(self.scope.get_unique_variable_name("constant"))
        value = np.asarray(value)
        if value.dtype.kind == "U":
            text = [each.encode() for each in value.ravel()]
            self.container.add_initializer(name, TensorProto.STRING, value.shape, text)
        else:
            tensor = numpy_helper.from_array(value.astype(dtype or self.dtype), name)
            self.container.add_initializer(name, None, None, tensor)
        return name

    def node(self, kind: str, inputs: list[str], output: str | None, **attributes: Any) -> str:
        result = output or str(self.scope.get_unique_variable_name(kind.lower()))
        name = self.scope.get_unique_operator_name(kind)
        self.container.add_node(kind, inputs, [result], name=name, **attributes)
        return result

    def cast(self, what: str, dtype: Any, output: str | None = None) -> str:
        """Add a conversion to another precision."""
        to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", what, output=output, to=to)

    def scores(self, coef: Any, intercept: Array) -> str:
        """Add ``X Wᵀ + b``."""
        coef = coef.toarray() if hasattr(coef, "toarray") else coef
        X = self.cast(self.inputs[0], self.dtype)  # the input may be declared as integers
        return self.add("Add", self.add("MatMul", X, np.ascontiguousarray(coef.T)), intercept)

    def both_signs(self, scores: str) -> str:
        """Add the scores of the two classes of a binary model: ``-s`` and ``s``."""
        return self.add("Concat", self.add("Neg", scores), scores, axis=1)

    def label(self, scores: str) -> None:
        """Add the first output: the class of highest score."""
        classes = get_label_classes(self.scope, self.model)
        best = self.add("ArgMax", scores, axis=1, keepdims=0)
        names = classes.astype(str) if classes.dtype.kind in "OU" else classes
        labels = self.constant(names, np.int64)
        self.add("Gather", labels, best, axis=0, output=self.outputs[0])

    def wants_raw_scores(self) -> bool:
        """Return whether the option asks for scores instead of probabilities."""
        return bool(self.container.get_options(self.model, {"raw_scores": False})["raw_scores"])


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    model = graph.model
    scores = graph.scores(dense_coef(model)[None], model.intercept_)
    graph.add(_INVERSE_LINKS[model._loss_traits.link], scores, output=graph.outputs[0])


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    model = graph.model
    binary = model.classes_.size == 2
    single = graph.scores(dense_coef(model), model.intercept_)
    scores = graph.both_signs(single) if binary else single
    graph.label(scores)
    has_proba = hasattr(model, "calibration_") or model._loss_traits.gives_probabilities
    if not has_proba or graph.wants_raw_scores():
        graph.add("Identity", scores, output=graph.outputs[1])
        return
    a, b = model._calibration()
    if binary:
        # σ(s), σ(-s) as the softmax of their logarithms, like one-vs-rest probabilities.
        scores, a, b = graph.both_signs(graph.add("Mul", single, a)), 0.0, 1.0
    # No division by a sum that underflows to 0.
    terms = [graph.add("Mul", scores, a)] if a else []
    terms += [graph.add("Mul", graph.log_sigmoid(scores), b)] if b else []
    graph.add("Softmax", graph.add("Sum", *terms), axis=1, output=graph.outputs[1])


def _convert_softmax(scope: Any, operator: Any, container: Any) -> None:
    graph = _Graph(scope, operator, container)
    model = graph.model
    raw = graph.wants_raw_scores()
    if model.posterior is not None and not raw:
        raise ValueError(
            "posterior='gaussian': probabilities are means over the posterior, which no graph "
            "has; convert with options={SoftmaxClassifier: {'raw_scores': True}} for labels "
            "and scores"
        )
    weights = model._weights()
    if weights.calibration is not None and not raw:
        raise ValueError(
            "label_weight='independent': probabilities of labels that are questions of their own "
            "are in no graph; convert with options={SoftmaxClassifier: {'raw_scores': True}} for "
            "labels and scores"
        )
    scores = graph.scores(model._class_weights(), weights.bias[weights.slots])
    graph.label(scores)
    if raw:
        graph.add("Identity", scores, output=graph.outputs[1])
    elif model.link == "softmax":
        graph.add("Softmax", scores, axis=1, output=graph.outputs[1])
    else:
        graph.cast(_choice_probabilities(graph, scores), graph.dtype, output=graph.outputs[1])


def _choice_probabilities(graph: _Graph, scores: str) -> str:
    """Add the probability of each alternative that its utility is the largest.

    A Scan over the grid keeps memory at rows × classes. Its state is the difference of the largest
    score and each score, and the sum of the integrand over the grid so far.
    """
    link, n_classes = graph.model.link, graph.model.classes_.size
    if link == "probit":
        low, high = ndtri(_TAIL_PROBABILITY), -ndtri(_TAIL_PROBABILITY / n_classes)
    else:
        low, high = np.log(_TAIL_PROBABILITY), np.log(n_classes / _TAIL_PROBABILITY)
    grid = np.arange(low, high, _SPACING[link])

    S = graph.cast(scores, np.float64)
    best = graph.add("ReduceMax", S, graph.constant([1], np.int64), keepdims=1)
    below = graph.add("Sub", best, S)
    zeros = graph.add("Sub", S, S)
    total = str(graph.scope.get_unique_variable_name("total"))
    unchanged = str(graph.scope.get_unique_variable_name("below"))
    graph.container.add_node(
        "Scan",
        [below, zeros, graph.constant(grid, np.float64)],
        [unchanged, total],
        name=graph.scope.get_unique_operator_name("Scan"),
        num_scan_inputs=1,
        body=_grid_point_graph(link),
    )
    return graph.add("Div", total, graph.sum_of_rows(total))


class _Body(_Nodes):
    """The nodes of a Scan's body, in float64."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str | None, **attributes: Any) -> str:
        name = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name


def _grid_point_graph(link: str) -> Any:
    """Return the graph that adds one point of the grid: ``p_k += φ(z_k)/Φ(z_k) Π_j Φ(z_j)``."""
    body = _Body()
    z = body.add("Add", "below", "point")  # t - s_k, where t is the largest score plus the point
    log_cdf, log_density = (_normal if link == "probit" else _logistic)(body, z)
    none_larger = body.sum_of_rows(log_cdf)
    own = body.add("Sub", log_density, log_cdf)
    chosen = body.add("Exp", body.add("Add", none_larger, own))
    body.add("Identity", "below", output="below_out")
    body.add("Add", "total", chosen, output="total_out")

    def value(name: str, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)

    matrix = [None, None]
    inputs = [value("below", matrix), value("total", matrix), value("point", [])]
    outputs = [value("below_out", matrix), value("total_out", matrix)]
    return helper.make_graph(body.nodes, "point", inputs, outputs, body.constants)


def _logistic(body: _Body, z: str) -> tuple[str, str]:
    """Add ``log Φ`` and ``log φ = log Φ(z) + log Φ(-z)`` of the logistic law."""
    log_cdf = body.log_sigmoid(z)
    return log_cdf, body.add("Add", log_cdf, body.log_sigmoid(body.add("Neg", z)))


def _normal(body: _Body, z: str) -> tuple[str, str]:
    """Add ``log Φ`` and ``log φ`` of the normal law, without erf, which runtimes lack in float64.

    With x = |z|/√2 and τ = 1/(1 + x/2), ``log(erfcx(x)/τ)`` is a polynomial in τ to nine digits;
    ½ exp(-x²) erfcx(x) is the smaller one of Φ(z) and 1 - Φ(z).
    """
    tau = np.linspace(1e-9, 1.0, 4001)
    series = np.polynomial.Chebyshev.fit(tau, np.log(erfcx(2.0 / tau - 2.0) / tau), 14)
    coefficients = series.convert(kind=np.polynomial.Polynomial).coef

    x = body.add("Mul", body.add("Abs", z), np.sqrt(0.5))
    t = body.add("Reciprocal", body.add("Add", body.add("Mul", x, 0.5), 1.0))
    value: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        value = body.add("Add", body.add("Mul", t, value), coefficient)
    square = body.add("Mul", x, x)
    log_smaller = body.add("Add", body.add("Log", t), body.add("Sub", value, square))
    log_smaller = body.add("Add", log_smaller, np.log(0.5))
    larger = body.add("Log", body.add("Sub", 1.0, body.add("Exp", log_smaller)))
    log_cdf = body.add("Where", body.add("Less", z, 0.0), log_smaller, larger)
    log_density = body.add("Sub", -0.5 * np.log(2.0 * np.pi), square)
    return log_cdf, log_density


_OPTIONS = {
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
    "zipmap": [True, False, "columns"],
}
for _kind, _shapes, _convert, _options in (
    (LinearRegressor, calculate_linear_regressor_output_shapes, _convert_regressor, None),
    (LinearClassifier, calculate_linear_classifier_output_shapes, _convert_classifier, _OPTIONS),
    (SoftmaxClassifier, calculate_linear_classifier_output_shapes, _convert_softmax, _OPTIONS),
):
    skl2onnx.update_registered_converter(
        _kind, f"Monro{_kind.__name__}", _shapes, _convert, options=_options
    )
