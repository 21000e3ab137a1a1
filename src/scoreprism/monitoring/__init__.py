"""Is a score still calibrated? Evidence that may be looked at every day."""

from __future__ import annotations

from scoreprism.monitoring._alarm import Alarm
from scoreprism.monitoring._monitor import CalibrationMonitor
from scoreprism.monitoring._planning import MonitoringPlan, plan_monitoring

__all__ = ["Alarm", "CalibrationMonitor", "MonitoringPlan", "plan_monitoring"]
