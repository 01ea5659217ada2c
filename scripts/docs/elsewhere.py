"""Which other libraries compute the same under which name; a test imports each of them."""

_SKLEARN_CALIBRATION = "sklearn.calibration.CalibratedClassifierCV"

ELSEWHERE = {
    "accuracy": [
        "sklearn.metrics.accuracy_score",
        "torchmetrics.classification.MulticlassAccuracy",
    ],
    "adaptive_ece": ["netcal.metrics.ACE"],
    "auroc": ["sklearn.metrics.roc_auc_score"],
    "brier": ["sklearn.metrics.brier_score_loss"],
    "ece": [
        "torchmetrics.classification.MulticlassCalibrationError",
        "netcal.metrics.ECE",
        "probmetrics.metrics.CalibrationError",
    ],
    "entity_f1": ["seqeval.metrics.f1_score"],
    "ks_error": ["probmetrics.metrics.KolmogorovSmirnovCalibrationMetric"],
    "mce": ["torchmetrics.classification.MulticlassCalibrationError", "netcal.metrics.MCE"],
    "mean_iou": ["torchmetrics.segmentation.MeanIoU"],
    "nll": ["sklearn.metrics.log_loss", "torch.nn.functional.cross_entropy"],
    "smooth_ece": ["relplot.smECE", "probmetrics.metrics.SmoothCalibrationError"],
    "BBQ": ["netcal.binning.BBQ"],
    "Beta": ["netcal.scaling.BetaCalibration", "probmetrics.calibrators.BetacalCalibrator"],
    "CentredIsotonic": ["probmetrics.calibrators.CenteredIsotonicRegressionCalibrator"],
    "Dirichlet": ["probmetrics.calibrators.DirichletCalibrator"],
    "EnsembleTemperature": ["probmetrics.calibrators.ETSCalibrator"],
    "HistogramBinning": ["netcal.binning.HistogramBinning"],
    "Isotonic": [_SKLEARN_CALIBRATION, "netcal.binning.IsotonicRegression"],
    "Matrix": ["probmetrics.calibrators.MatrixScalingCalibrator"],
    "Platt": [_SKLEARN_CALIBRATION, "netcal.scaling.LogisticCalibration"],
    "Spline": ["probmetrics.calibrators.CDFSplineCalibrator"],
    "StructuredMatrix": ["probmetrics.calibrators.SMSCalibrator"],
    "StructuredVector": ["probmetrics.calibrators.SVSCalibrator"],
    "Temperature": [
        _SKLEARN_CALIBRATION,
        "netcal.scaling.TemperatureScaling",
        "probmetrics.calibrators.TemperatureScalingCalibrator",
    ],
    "Vector": ["probmetrics.calibrators.VectorScalingCalibrator"],
    "VennAbers": ["probmetrics.calibrators.VennAbersCalibrator"],
    "cross_entropy": ["torch.nn.functional.cross_entropy"],
    "label_smoothing": ["torch.nn.functional.cross_entropy"],
    "mmce": ["netcal.metrics.MMCE"],
}
