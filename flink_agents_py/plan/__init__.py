"""Agent -> AgentPlan: compiling, the JSON form, and what the engine asks of a plan."""

from flink_agents_py.plan.action import PlanAction
from flink_agents_py.plan.compile import compile_agent
from flink_agents_py.plan.functions import PythonFunction
from flink_agents_py.plan.plan import AgentPlan
from flink_agents_py.plan.updates import PlanFile

__all__ = ["AgentPlan", "PlanAction", "PlanFile", "PythonFunction", "compile_agent"]
